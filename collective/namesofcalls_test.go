package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestNamesOfCalls: errors name the functions that the program has called.
func TestNamesOfCalls(t *testing.T) {
	ctx := t.Context()
	objects := func(c *Comm) error { _, err := AllGatherObject(ctx, c, "x"); return err }
	for name, call := range map[string]func(c *Comm) error{
		"Dup":             func(c *Comm) error { _, err := c.Dup(ctx); return err },
		"SplitByHost":     func(c *Comm) error { _, err := c.SplitByHost(ctx); return err },
		"Split":           func(c *Comm) error { _, err := c.Split(ctx, 0, 0); return err },
		"AllGatherObject": objects,
		"GatherObject":    func(c *Comm) error { _, err := GatherObject(ctx, c, "x", 0); return err },
		"NewBuckets":      func(c *Comm) error { _, err := NewBuckets(ctx, c, [][]int{{1}}, Sum, 0); return err },
		"Restore":         func(c *Comm) error { _, err := Restore(ctx, c, 1, []int{1}); return err },
	} {
		for r, err := range runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
			if c.Rank() == 0 {
				return Barrier(ctx, c)
			}
			return call(c)
		}) {
			if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "rank 1 called "+name+" #1") {
				t.Errorf("rank %d: %v, want an error that names %s", r, err, name)
			}
		}
	}
	for r, err := range runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 0 {
			return errors.Join(SendObject(ctx, c, "x", 1, 3), Barrier(ctx, c))
		}
		return received(ctx, c, make([]int32, 4), 0, 3)
	}) {
		want := "rank 0 sent 2 bytes of an object with tag 3 while rank 1 called Recv (4 int32, tag 3)"
		if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), want) {
			t.Errorf("rank %d: %v, want %q", r, err, want)
		}
	}
}

// TestNamesOfNew: the error of a receive that makes its slice names it, and no length, which the program has not named.
func TestNamesOfNew(t *testing.T) {
	ctx := t.Context()
	for want, receive := range map[string]func(c *Comm) error{
		"RecvNew (uint8, tag 3)": func(c *Comm) error {
			_, _, err := RecvNew[uint8](ctx, c, 0, 3)
			return err
		},
		"RecvNew (collective.particle, digest ": func(c *Comm) error {
			_, _, err := RecvNew[particle](ctx, c, 0, 3)
			return err
		},
		"RecvObject (an object, tag 3)": func(c *Comm) error {
			_, _, err := RecvObject[int](ctx, c, 0, 3)
			return err
		},
	} {
		for r, err := range runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
			if c.Rank() == 0 {
				return errors.Join(Send(ctx, c, []float64{1, 2, 3}, 1, 3), Barrier(ctx, c))
			}
			return receive(c)
		}) {
			want := "rank 0 sent 3 float64 with tag 3 while rank 1 called " + want
			if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), want) ||
				strings.Contains(err.Error(), "undefined") {
				t.Errorf("rank %d: %v, want %q", r, err, want)
			}
		}
	}
}

// TestNamesOfForms: the other forms of a call have their names, too, in refusals and where a call under way fails.
func TestNamesOfForms(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	x, short := make([]int, 4), make([]int, 3)
	add := func(a, b int) int { return a + b }
	started := func(r interface{ Wait(context.Context) error }, err error) error {
		return errors.Join(err, r.Wait(gone))
	}
	begun := func(p interface{ Start() (Request, error) }, err error) error {
		if err != nil {
			return err
		}
		return started(p.Start())
	}
	for want, call := range map[string]func(c *Comm) error{
		"StartAllReduce on":            func(c *Comm) error { _, err := StartAllReduce(c, x, short, Sum); return err },
		"AllReduceInit on":             func(c *Comm) error { _, err := AllReduceInit(c, x, short, Sum); return err },
		"ReduceScatterPreMul on":       func(c *Comm) error { return ReduceScatterPreMul(gone, c, x, x, 2) },
		"StartAllGatherV on":           func(c *Comm) error { _, err := StartAllGatherV(c, x, x, nil); return err },
		"AllReduceCoalesced on":        func(c *Comm) error { return AllReduceCoalesced(gone, c, [][]int{x}, nil, Sum) },
		"BroadcastObject on":           func(c *Comm) error { _, err := BroadcastObject(gone, c, "x", 9); return err },
		"ScatterObject #1 (1 int64":    func(c *Comm) error { _, err := ScatterObject(gone, c, []int{1, 2}, 0); return err },
		"ReduceValue on":               func(c *Comm) error { _, err := ReduceValue(gone, c, 1, Sum, 9); return err },
		"AllReduceValueFunc #1 (1 int": func(c *Comm) error { _, err := AllReduceValueFunc(gone, c, 1, add); return err },
		"StartAllReduce #1 (sum of":    func(c *Comm) error { return started(StartAllReduce(c, x, x, Sum)) },
		"AllReduceInit #1 (sum of":     func(c *Comm) error { return begun(AllReduceInit(c, x, x, Sum)) },
		"StartRecv (4 int":             func(c *Comm) error { return started(StartRecv(c, x, 1-c.Rank(), 0)) },
	} {
		errs := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
			if c.Rank() == 1 {
				return nil
			}
			return call(c)
		})
		if err := errs[0]; err == nil || !strings.Contains(err.Error(), "collective: "+want) {
			t.Errorf("%v, want an error that names %q", err, want)
		}
	}
}

// TestNameOfCommunicator: a rank of another communicator than the first is named with that.
func TestNameOfCommunicator(t *testing.T) {
	mustRun(t, 4, func(_ *fakeWorld, c *Comm) error {
		part, err := c.Split(t.Context(), c.Rank()%2, 0)
		if err != nil {
			return err
		}
		want := fmt.Sprintf("Barrier on rank %d of world/split#1: ", c.Rank()/2)
		err = part.Close()
		if failed := Barrier(t.Context(), part); !errors.Is(failed, ErrClosed) || !strings.Contains(failed.Error(), want) {
			return fmt.Errorf("%w, want %q", failed, want)
		}
		want = fmt.Sprintf("Send on rank %d of world/split#1: ", c.Rank()/2)
		if failed := Send(t.Context(), part, []int{1}, 2, 0); !strings.Contains(fmt.Sprint(failed), want) {
			return fmt.Errorf("%w, want %q", failed, want)
		}
		return err
	})
}

// TestPairsOfCommunicators: where ranks make communicators by different calls, no rank gets one. The calls of all ranks
// are compared; a Sub and a StartDup, which need not be in the order of the calls, wait for each other.
func TestPairsOfCommunicators(t *testing.T) {
	builders := []struct {
		name  string
		call  func(ctx context.Context, c *Comm) (*Comm, error)
		waits bool
	}{
		{"Split", func(ctx context.Context, c *Comm) (*Comm, error) { return c.Split(ctx, c.Rank()%2, 0) }, false},
		{"SplitByHost", func(ctx context.Context, c *Comm) (*Comm, error) { return c.SplitByHost(ctx) }, false},
		{"Dup", func(ctx context.Context, c *Comm) (*Comm, error) { return c.Dup(ctx) }, false},
		{"Sub", func(ctx context.Context, c *Comm) (*Comm, error) { return c.Sub(ctx, []int{0, 1, 2}) }, true},
		{"StartDup", func(ctx context.Context, c *Comm) (*Comm, error) {
			d, err := c.StartDup()
			if err != nil {
				return nil, err
			}
			return d.Wait(ctx)
		}, true},
	}
	for i, a := range builders {
		for _, b := range builders[:i] {
			for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if a.waits || b.waits {
					ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
					defer cancel()
				}
				call := a.call
				if c.Rank() == 1 {
					call = b.call
				}
				_, err := call(ctx, c)
				return err
			}) {
				switch want := fmt.Sprintf("rank 1 called %s #1", b.name); {
				case a.waits || b.waits:
					if !errors.Is(err, ErrCanceled) {
						t.Errorf("%s and, on rank 1, %s: rank %d: %v", a.name, b.name, r, err)
					}
				case !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), want) ||
					!strings.Contains(err.Error(), "called "+a.name+" #1"):
					t.Errorf("%s and, on rank 1, %s: rank %d: %v", a.name, b.name, r, err)
				}
			}
		}
	}
}

// TestNamesOfNewBuckets: NewBuckets is named once, and for what is wrong with the values that it has. So are the zero
// values of persistent calls.
func TestNamesOfNewBuckets(t *testing.T) {
	mustRun(t, 1, func(_ *fakeWorld, c *Comm) error {
		x := [][]int{{1}}
		_, noOp := NewBuckets(t.Context(), c, x, 0, 0)
		_, none := NewBuckets(t.Context(), nil, x, Sum, 0)
		_, call := new(Persistent).Start()
		_, message := new(PersistentMessage).Start()
		closing := c.Close()
		_, closed := NewBuckets(t.Context(), c, x, Sum, 0)
		for want, err := range map[string]error{
			"collective: NewBuckets on rank 0: invalid argument: no such operation: 0": noOp,
			"collective: NewBuckets: invalid argument: the Comm is nil":                none,
			"collective: Persistent: invalid argument: it is the zero value":           call,
			"collective: Persistent: invalid argument: it is the zero value ":          new(Persistent).Run(t.Context()),
			"collective: PersistentMessage: invalid argument: it is the zero value":    message,
			"collective: NewBuckets on rank 0: the communicator is closed":             closed,
		} {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				return fmt.Errorf("%w, want %q", err, want)
			}
		}
		return closing
	})
}
