package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/topo"
)

// TestMismatch: one rank makes another call than the others. Every rank gets
// ErrMismatch within a second, and the error names both calls and blames no
// innocent rank.
func TestMismatch(t *testing.T) {
	ctx := t.Context()
	f := make([]float32, 1000)
	usual := func(c *Comm) error { return AllReduce(ctx, c, f[:0:0], f[:0:0], Sum) }
	for _, tc := range []struct {
		name         string
		usual, odd   func(c *Comm) error
		saysA, saysB string
	}{
		{"operation", func(c *Comm) error { x := make([]float32, 10); return AllReduce(ctx, c, x, x, Sum) },
			func(c *Comm) error { x := make([]float32, 10); return AllReduce(ctx, c, x, x, Max) }, "sum of 10", "max of 10"},
		{"type", func(c *Comm) error { x := make([]float32, 10); return AllReduce(ctx, c, x, x, Sum) },
			func(c *Comm) error { x := make([]int32, 10); return AllReduce(ctx, c, x, x, Sum) }, "float32", "int32"},
		{"count", func(c *Comm) error { x := make([]float32, 10); return AllReduce(ctx, c, x, x, Sum) },
			func(c *Comm) error { x := make([]float32, 11); return AllReduce(ctx, c, x, x, Sum) }, "10 float32", "11 float32"},
		{"large count", func(c *Comm) error { x := make([]float32, 1<<16); return AllReduce(ctx, c, x, x, Sum) },
			func(c *Comm) error { x := make([]float32, 1<<17); return AllReduce(ctx, c, x, x, Sum) }, "65536", "131072"},
		{"root", func(c *Comm) error { x := make([]float32, 10); return Broadcast(ctx, c, x, x, 0) },
			func(c *Comm) error { x := make([]float32, 10); return Broadcast(ctx, c, x, x, 1) }, "root 0", "root 1"},
		{"collective", func(c *Comm) error { x := make([]float32, 10); return Reduce(ctx, c, x, x, Sum, 0) },
			func(c *Comm) error { x := make([]float32, 10); return Broadcast(ctx, c, x, x, 0) }, "Reduce", "Broadcast"},
		{"order", func(c *Comm) error { return errors.Join(usual(c), Barrier(ctx, c)) },
			func(c *Comm) error { return errors.Join(Barrier(ctx, c), usual(c)) }, "AllReduce", "Barrier"},
		{"one call fewer", func(c *Comm) error { return errors.Join(Barrier(ctx, c), Barrier(ctx, c), usual(c)) },
			func(c *Comm) error { return errors.Join(Barrier(ctx, c), usual(c), usual(c)) }, "AllReduce", "Barrier"},
	} {
		for _, size := range []int{2, 3, 5, 8} {
			for _, odd := range []int{0, size - 1, size / 2} {
				t.Run(fmt.Sprintf("%s/ranks=%d/odd=%d", tc.name, size, odd), func(t *testing.T) {
					start := time.Now()
					errs := runRanks(t, size, func(_ *fakeWorld, c *Comm) error {
						call := tc.usual
						if c.Rank() == odd {
							call = tc.odd
						}
						err := call(c)
						// A rank may have left its last call before the others found out.
						for err == nil {
							err = Barrier(ctx, c)
						}
						return err
					}, WithGraph(topo.UniformGraph(size)))
					if took := time.Since(start); took > 5*time.Second {
						t.Errorf("the ranks needed %v to find out", took)
					}
					for r, err := range errs {
						var re *RankError
						if !errors.As(err, &re) || !errors.Is(err, ErrMismatch) {
							t.Fatalf("rank %d: %v, want ErrMismatch in a *RankError", r, err)
						}
						if re.Rank != odd && re.Rank != -1 {
							t.Errorf("rank %d blames rank %d, the odd one was %d: %v", r, re.Rank, odd, err)
						}
						if !strings.Contains(err.Error(), tc.saysA) || !strings.Contains(err.Error(), tc.saysB) {
							t.Errorf("rank %d: %v, want both %q and %q named", r, err, tc.saysA, tc.saysB)
						}
					}
				})
			}
		}
	}
}

// TestRankLost: while the others wait for a rank, the World learns that it has
// ended. All calls, under way and later, return its cause.
func TestRankLost(t *testing.T) {
	const size, lost = 4, 2
	errs := runRanks(t, size, func(w *fakeWorld, c *Comm) error {
		x := make([]float64, 100)
		if err := AllReduce(t.Context(), c, x, x, Sum); err != nil {
			return err
		}
		if c.Rank() == lost {
			time.Sleep(20 * time.Millisecond)
			w.fail(lost, errors.New("killed by SIGKILL"))
			return nil
		}
		first := AllReduce(t.Context(), c, x, x, Sum)
		again := Barrier(t.Context(), c)
		if first == nil || again == nil {
			t.Errorf("rank %d: calls without rank %d succeeded", c.Rank(), lost)
		}
		return errors.Join(first, again)
	}, WithGraph(topo.UniformGraph(size)))
	for r, err := range errs {
		var re *RankError
		switch {
		case r == lost:
		case !errors.As(err, &re), re.Rank != lost, !errors.Is(err, ErrRankLost), !strings.Contains(err.Error(), "SIGKILL"):
			t.Errorf("rank %d: %v, want ErrRankLost of rank %d with its cause", r, err, lost)
		}
	}
}

// TestRankLostDuringNew: a rank ends before it calls New; the others do not wait
// for it.
func TestRankLostDuringNew(t *testing.T) {
	job := newFakeJob(3)
	errs := job.run(t, func(w *fakeWorld) error {
		if w.rank == 1 {
			time.Sleep(20 * time.Millisecond)
			w.fail(1, errors.New("exited with code 3"))
			return nil
		}
		_, err := New(t.Context(), w, overMem, WithTopoCache(""))
		return err
	})
	for _, r := range []int{0, 2} {
		var re *RankError
		if !errors.As(errs[r], &re) || re.Rank != 1 || !errors.Is(errs[r], ErrRankLost) || !strings.Contains(errs[r].Error(), "exited with code 3") {
			t.Errorf("rank %d: %v, want ErrRankLost of rank 1 with its cause", r, errs[r])
		}
	}
}

// TestClosedEarly: a rank closes its communicator, others call on.
func TestClosedEarly(t *testing.T) {
	errs := runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 1 {
			return nil
		}
		return Barrier(t.Context(), c)
	}, WithGraph(topo.UniformGraph(3)))
	for _, r := range []int{0, 2} {
		var re *RankError
		if !errors.As(errs[r], &re) || re.Rank != 1 || !errors.Is(errs[r], ErrPeerClosed) {
			t.Errorf("rank %d: %v, want ErrPeerClosed of rank 1", r, errs[r])
		}
	}
}

// TestContext: the context of one rank's call ends. That rank gets the
// context's error, the others learn whose it was.
func TestContext(t *testing.T) {
	errs := runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
		ctx := t.Context()
		switch c.Rank() {
		case 2: // comes late
			time.Sleep(150 * time.Millisecond)
		case 1:
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 30*time.Millisecond)
			defer cancel()
		}
		return Barrier(ctx, c)
	}, WithGraph(topo.UniformGraph(3)))
	if !errors.Is(errs[1], context.DeadlineExceeded) {
		t.Errorf("rank 1: %v, want its context's error", errs[1])
	}
	for r, err := range errs {
		var re *RankError
		if !errors.As(err, &re) || re.Rank != 1 || !errors.Is(err, ErrCanceled) {
			t.Errorf("rank %d: %v, want ErrCanceled of rank 1", r, err)
		}
	}
}

// TestArguments: a call with a wrong argument sends nothing and leaves the
// communicator usable.
func TestArguments(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		ctx := t.Context()
		x := make([]float32, 100)
		for name, err := range map[string]error{
			"lengths differ":  AllReduce(ctx, c, x[:10], x[20:31], Sum),
			"partial overlap": AllReduce(ctx, c, x[:50], x[1:51], Sum),
			"no operation":    AllReduce(ctx, c, x, x, Op(0)),
			"no such op":      Reduce(ctx, c, x, x, Op(77), 0),
			"negative root":   Broadcast(ctx, c, x, x, -1),
			"root too large":  Reduce(ctx, c, x, x, Sum, 2),
			"root's lengths":  Broadcast(ctx, c, x[:1], x, c.Rank()),
			"root's overlap":  Reduce(ctx, c, x[:50], x[49:99], Sum, c.Rank()),
		} {
			if !errors.Is(err, ErrArgument) {
				return fmt.Errorf("%s: %v, want ErrArgument", name, err)
			}
		}
		return Barrier(ctx, c)
	}, WithGraph(topo.UniformGraph(2)))
}

// TestSettingsDiffer: New fails on all ranks when the options of one differ.
func TestSettingsDiffer(t *testing.T) {
	job := newFakeJob(3)
	errs := job.run(t, func(w *fakeWorld) error {
		slots := 8
		if w.rank == 1 {
			slots = 4
		}
		_, err := New(t.Context(), w, overMem, WithTopoCache(""), WithSlots(slots, 4096))
		return err
	})
	for r, err := range errs {
		if !errors.Is(err, ErrDisagree) || !strings.Contains(err.Error(), "ranks 0,2") || !strings.Contains(err.Error(), "slots=4x4096 plans=any tuning=none graph=measured on rank 1") {
			t.Errorf("rank %d: %v, want both values and their ranks", r, err)
		}
	}
}

// TestOneCallAtATime: a second goroutine gets ErrBusy, not a broken call.
func TestOneCallAtATime(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 1 {
			time.Sleep(50 * time.Millisecond)
			return Barrier(t.Context(), c)
		}
		second := make(chan error)
		go func() {
			time.Sleep(20 * time.Millisecond)
			second <- Barrier(t.Context(), c)
		}()
		err := Barrier(t.Context(), c)
		if busy := <-second; !errors.Is(busy, ErrBusy) {
			return fmt.Errorf("the second call returned %v, want ErrBusy", busy)
		}
		return err
	}, WithGraph(topo.UniformGraph(2)))
}

// TestAfterClose: calls on a closed communicator fail, a second Close does
// nothing.
func TestAfterClose(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		if err := Barrier(t.Context(), c); err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
		if err := Barrier(t.Context(), c); !errors.Is(err, ErrClosed) {
			return fmt.Errorf("Barrier after Close: %v, want ErrClosed", err)
		}
		return nil
	}, WithGraph(topo.UniformGraph(2)))
}
