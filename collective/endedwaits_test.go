package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/topo"
)

// waitingForms are the ways in which a rank can wait for rank 2, which does not take part. Messages exceed the capacity
// of a link.
var waitingForms = []struct {
	name string
	wait func(ctx context.Context, c *Comm) error
}{
	{"AllReduce", func(ctx context.Context, c *Comm) error {
		x := make([]float32, 10)
		return AllReduce(ctx, c, x, x, Sum)
	}},
	{"large AllToAll", func(ctx context.Context, c *Comm) error {
		x := make([]float32, 300_000)
		return AllToAll(ctx, c, x, x)
	}},
	{"Broadcast from the absent", func(ctx context.Context, c *Comm) error {
		x := make([]float32, 10)
		return Broadcast(ctx, c, x, x, 2)
	}},
	{"Gather, Scatter", func(ctx context.Context, c *Comm) error {
		x := make([]float32, 9)
		if err := Gather(ctx, c, x[:3], make([]float32, 9), 1); err != nil {
			return err
		}
		return Scatter(ctx, c, nil, x[:3], 2)
	}},
	{"Barrier", Barrier},
	{"Wait", func(ctx context.Context, c *Comm) error {
		x := make([]float32, 10)
		r, err := StartAllReduce(c, x, x, Sum)
		if err != nil {
			return err
		}
		return r.Wait(ctx)
	}},
	{"Wait for the last of many", func(ctx context.Context, c *Comm) error {
		x := make([]float32, 10)
		var last Request
		for range 100 {
			if _, err := StartReduceScatter(c, x[:9], x[9:], Sum); !errors.Is(err, ErrArgument) {
				return fmt.Errorf("a wrong call in between gave %v", err)
			}
			r, err := StartAllGather(c, x[:3], make([]float32, 3*c.in.Size))
			if err != nil {
				return err
			}
			last = r
		}
		return last.Wait(ctx)
	}},
	{"Wait for a ReduceScatterFunc", func(ctx context.Context, c *Comm) error {
		x := make([]float32, 30)
		r, err := StartReduceScatterFunc(c, x, make([]float32, 10), func(into, from []float32) {})
		if err != nil {
			return err
		}
		return r.Wait(ctx)
	}},
	{"AllReduceFunc", func(ctx context.Context, c *Comm) error {
		x := make([]float32, 10)
		return AllReduceFunc(ctx, c, x, x, func(into, from []float32) {})
	}},
	{"Persistent", func(ctx context.Context, c *Comm) error {
		x := make([]float32, 30_000)
		p, err := AllReduceInit(c, x, x, Max)
		if err != nil {
			return err
		}
		return p.Run(ctx)
	}},
	{"AllReduceCoalesced", func(ctx context.Context, c *Comm) error {
		x := [][]float32{make([]float32, 10), {}, make([]float32, 70_000)}
		return AllReduceCoalesced(ctx, c, x, x, Sum)
	}},
	{"Send", func(ctx context.Context, c *Comm) error { return Send(ctx, c, make([]float32, 1<<20), 2, 0) }},
	{"SendSync", func(ctx context.Context, c *Comm) error { return SendSync(ctx, c, make([]float32, 1), 2, 0) }},
	{"Recv", func(ctx context.Context, c *Comm) error { return received(ctx, c, make([]float32, 10), 2, 0) }},
	{"SendRecv", func(ctx context.Context, c *Comm) error {
		return exchanged(ctx, c, make([]float32, 1<<20), 2, make([]float32, 1<<20), 2, 0)
	}},
}

// testForms wait without Wait: they call Test until the operation ends.
var testForms = []struct {
	name string
	wait func(c *Comm) error
}{
	{"Test", func(c *Comm) error {
		x := make([]float32, 10)
		r, err := StartAllReduce(c, x, x, Sum)
		for done := false; !done && err == nil; time.Sleep(100 * time.Microsecond) {
			done, err = r.Test()
		}
		return err
	}},
	{"Test of an AllToAllV", func(c *Comm) error {
		x, ones := make([]float32, c.Size()), slices.Repeat([]int{1}, c.Size())
		r, err := StartAllToAllV(c, x, ones, make([]float32, c.Size()), ones)
		for done := false; !done && err == nil; time.Sleep(100 * time.Microsecond) {
			done, err = r.Test()
		}
		return err
	}},
	{"Test of a message", func(c *Comm) error {
		m, err := StartRecv(c, make([]float32, 10), 2, 0)
		for done := false; !done && err == nil; time.Sleep(100 * time.Microsecond) {
			done, err = m.Test()
		}
		return err
	}},
	{"one more than may be in flight", func(c *Comm) error {
		for {
			if _, err := StartAllReduce(c, make([]float32, 1), make([]float32, 1), Sum); err != nil {
				return err
			}
		}
	}},
	{"messages begun on and on", func(c *Comm) error {
		for {
			if _, err := StartRecv(c, make([]float32, 1), 2, 0); err != nil {
				return err
			}
		}
	}},
}

// stops are events that end the waiting of ranks 0 and 1: the action of rank by, the rank at fault then, and the kind
// of error.
var stops = []struct {
	name string
	by   int
	kind error
	stop func(w *fakeWorld, c *Comm, cancel context.CancelFunc)
}{
	{"lost", 2, ErrRankLost, func(w *fakeWorld, _ *Comm,
		_ context.CancelFunc) {
		w.Fail(2, errors.New("killed by SIGKILL"))
	}},
	{"closes", 2, ErrPeerClosed, func(_ *fakeWorld, c *Comm, _ context.CancelFunc) { c.Close() }},
	{"aborts", 2, ErrAborted, func(_ *fakeWorld, c *Comm, _ context.CancelFunc) { c.Abort(errors.New("enough")) }},
	{"its context ends", 0, ErrCanceled, func(_ *fakeWorld, _ *Comm, cancel context.CancelFunc) { cancel() }},
	{"closes meanwhile", 0, ErrPeerClosed, func(_ *fakeWorld, c *Comm, _ context.CancelFunc) { c.Close() }},
	{"aborts meanwhile", 0, ErrAborted, func(_ *fakeWorld, c *Comm,
		_ context.CancelFunc) {
		c.Abort(errors.New("enough"))
	}},
}

// TestStop: in whatever call ranks wait, and whatever ends it, all of them get the first cause, and so does every later
// call.
func TestStop(t *testing.T) {
	var all []func()
	for i, form := range waitingForms {
		for j := range stops {
			all = append(all, func() {
				tryStop(t, form.name, form.wait, j, WithAlgorithm(localAlgorithms[(i+j)%len(localAlgorithms)]))
			})
		}
	}
	for i, form := range testForms {
		for j, s := range stops {
			if s.kind == ErrCanceled {
				continue // no context to end
			}
			all = append(all, func() {
				tryStop(t, form.name, func(_ context.Context, c *Comm) error { return form.wait(c) }, j,
					WithAlgorithm(localAlgorithms[(i+j)%len(localAlgorithms)]))
			})
		}
	}
	atOnce(all)
}

func tryStop(t *testing.T, form string, wait func(context.Context, *Comm) error, which int, opts ...Option) {
	const size = 3
	s := stops[which]
	name := fmt.Sprintf("%s, rank %d %s", form, s.by, s.name)
	var first, later [size]error
	runRanks(t, size, func(w *fakeWorld, c *Comm) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var left atomic.Bool // this rank has closed, and receives nothing any more
		if w.Rank() == s.by {
			stopper := time.AfterFunc(30*time.Millisecond, func() {
				// On a busy machine it may not have called yet. A call that only polls now and then is seldom seen in progress, but
				// has begun long before the limit.
				for start := time.Now(); s.by == 0 && !c.in.Claimed() && time.Since(start) < time.Second; {
					time.Sleep(20 * time.Microsecond)
				}
				s.stop(w, c, cancel)
				left.Store(s.kind == ErrPeerClosed)
			})
			defer stopper.Stop()
		}
		if w.Rank() == 2 {
			for stopped := false; !stopped && !left.Load(); time.Sleep(time.Millisecond) {
				_, stopped = c.in.Endpoint.Aborted()
			}
			return nil
		}
		first[w.Rank()] = wait(ctx, c)
		later[w.Rank()] = Barrier(t.Context(), c)
		return nil
	}, append(opts, WithGraph(topo.UniformGraph(size)))...)
	for r := range 2 {
		for i, err := range []error{first[r], later[r]} {
			if r == s.by && s.name == "closes meanwhile" && errors.Is(err, ErrClosed) {
				continue // between two calls
			}
			var re *RankError
			if !errors.As(err, &re) || re.Rank != s.by || !errors.Is(err, s.kind) {
				t.Errorf("%s: rank %d, call %d: %v, want %q of rank %d", name, r, i, err, s.kind, s.by)
			}
		}
		if s.kind == ErrCanceled && !errors.Is(first[r], context.Canceled) {
			t.Errorf("%s: %v does not say that the context was canceled", name, first[r])
		}
		if s.kind == ErrRankLost && first[r] != nil && !strings.Contains(first[r].Error(), "SIGKILL") {
			t.Errorf("%s: rank %d: %v does not say how rank 2 ended", name, r, first[r])
		}
	}
}

// TestEndedContext: a call with a context that has ended fails on all ranks,
// even where it would not have to wait.
func TestEndedContext(t *testing.T) {
	x := func() []float32 { return make([]float32, 4) }
	for name, call := range map[string]func(ctx context.Context, c *Comm) error{
		"Broadcast": func(ctx context.Context, c *Comm) error { return Broadcast(ctx, c, x(), x(), 1) },
		"BroadcastCoalesced": func(ctx context.Context, c *Comm) error {
			return BroadcastCoalesced(ctx, c, [][]float32{x()}, [][]float32{x()}, 1)
		},
		"Persistent": func(ctx context.Context, c *Comm) error {
			p, err := BroadcastInit(c, x(), x(), 1)
			if err != nil {
				return err
			}
			return p.Run(ctx)
		},
		"Send": func(ctx context.Context, c *Comm) error {
			if c.in.Rank == 1 {
				return Send(ctx, c, x(), 0, 0)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			for size := 2; size <= 3; size++ {
				errs := runRanks(t, size, func(_ *fakeWorld, c *Comm) error {
					ctx, cancel := context.WithCancel(t.Context())
					if c.in.Rank == 1 {
						cancel()
					}
					defer cancel()
					return errors.Join(call(ctx, c), Barrier(t.Context(), c))
				})
				if !errors.Is(errs[1], context.Canceled) {
					t.Errorf("rank 1: %v, want its context's error", errs[1])
				}
				for r, err := range errs {
					var re *RankError
					if !errors.As(err, &re) || re.Rank != 1 || !errors.Is(err, ErrCanceled) {
						t.Errorf("rank %d of %d: %v, want ErrCanceled of rank 1", r, size, err)
					}
				}
			}
		})
	}
}
