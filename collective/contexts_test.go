package collective

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// boundForms are calls in which ranks 0 and 1 wait for the last one, which makes none, each in a context.
var boundForms = []struct {
	name string
	call func(ctx context.Context, c *Comm) error
}{
	{"AllReduce", func(ctx context.Context, c *Comm) error { return AllReduce(ctx, c, ten(), ten(), Sum) }},
	{"AllReduceValue", func(ctx context.Context, c *Comm) error {
		_, err := AllReduceValue(ctx, c, 1, Sum)
		return err
	}},
	{"AllGatherV", func(ctx context.Context, c *Comm) error {
		counts := make([]int, c.Size())
		counts[c.Size()-1] = 10
		return AllGatherV(ctx, c, ten()[:counts[c.Rank()]], ten(), counts)
	}},
	{"ReduceScatterV", func(ctx context.Context, c *Comm) error {
		counts := make([]int, c.Size())
		counts[0], counts[1] = 4, 6
		return ReduceScatterV(ctx, c, ten(), ten()[:counts[c.Rank()]], counts, Sum)
	}},
	{"AllToAllV", func(ctx context.Context, c *Comm) error {
		counts := make([]int, c.Size())
		return AllToAllV(ctx, c, []int{}, counts, []int{}, counts)
	}},
	{"ReduceScatterFunc", func(ctx context.Context, c *Comm) error {
		part := make([]float32, 10)
		return ReduceScatterFunc(ctx, c, make([]float32, 10*c.Size()), part, func(into, from []float32) {})
	}},
	{"AllReduceFunc", func(ctx context.Context, c *Comm) error {
		return AllReduceFunc(ctx, c, ten(), ten(), func(into, from []float32) {})
	}},
	{"Recv", func(ctx context.Context, c *Comm) error { return received(ctx, c, ten(), c.Size()-1, 0) }},
	{"Recv from any", func(ctx context.Context, c *Comm) error { return received(ctx, c, ten(), AnySource, AnyTag) }},
	{"Send", func(ctx context.Context, c *Comm) error { return Send(ctx, c, make([]float32, 8<<20), c.Size()-1, 0) }},
	{"SendSync", func(ctx context.Context, c *Comm) error { return SendSync(ctx, c, ten(), c.Size()-1, 0) }},
	{"ProbeMatched", func(ctx context.Context, c *Comm) error {
		_, err := ProbeMatched(ctx, c, c.Size()-1, 0)
		return err
	}},
	{"SendRecv", func(ctx context.Context, c *Comm) error {
		return exchanged(ctx, c, ten(), c.Size()-1, ten(), c.Size()-1, 0)
	}},
	{"Probe", func(ctx context.Context, c *Comm) error {
		_, err := Probe(ctx, c, c.Size()-1, 0)
		return err
	}},
	{"Probe of any", func(ctx context.Context, c *Comm) error {
		_, err := Probe(ctx, c, AnySource, AnyTag)
		return err
	}},
	{"Wait", func(ctx context.Context, c *Comm) error {
		r, err := StartAllReduce(c, ten(), ten(), Sum)
		if err != nil {
			return err
		}
		return r.Wait(ctx)
	}},
	{"Wait of a message", func(ctx context.Context, c *Comm) error {
		m, err := StartRecv(c, ten(), c.Size()-1, 0)
		if err != nil {
			return err
		}
		return m.Wait(ctx)
	}},
	{"BroadcastObject", func(ctx context.Context, c *Comm) error {
		_, err := BroadcastObject(ctx, c, "", c.Size()-1)
		return err
	}},
	{"AllGatherObject", func(ctx context.Context, c *Comm) error {
		_, err := AllGatherObject(ctx, c, "x")
		return err
	}},
	{"Split", func(ctx context.Context, c *Comm) error {
		_, err := c.Split(ctx, 0, 0)
		return err
	}},
	{"Dup", func(ctx context.Context, c *Comm) error {
		_, err := c.Dup(ctx)
		return err
	}},
	{"Sub", func(ctx context.Context, c *Comm) error {
		_, err := c.Sub(ctx, []int{0, 1, c.Size() - 1})
		return err
	}},
}

// endings are the ways in which the context of rank 0 ends.
var endings = []struct {
	name string
	with func(ctx context.Context) (context.Context, context.CancelFunc)
	kind error
}{
	{"canceled", func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(30*time.Millisecond, cancel)
		return ctx, cancel
	}, context.Canceled},
	{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 30*time.Millisecond)
	}, context.DeadlineExceeded},
	{"canceled before", func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	}, context.Canceled},
	{"deadline before", func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithDeadline(ctx, time.Now().Add(-time.Second))
	}, context.DeadlineExceeded},
}

// endsFor makes a call in which rank 0's context ends, and then another, and reports the first difference from the
// errors expected. The last rank makes only the second call.
func endsFor(t *testing.T, c *Comm, call func(context.Context, *Comm) error,
	with func(context.Context) (context.Context, context.CancelFunc), kind error) error {
	ctx, cancel := t.Context(), context.CancelFunc(func() {})
	if c.Rank() == 0 {
		ctx, cancel = with(ctx)
	}
	defer cancel()
	absent := c.Rank() == c.Size()-1
	var errs []error
	if !absent {
		errs = append(errs, call(ctx, c))
	}
	for ended := !absent; !ended; time.Sleep(time.Millisecond) {
		_, ended = c.in.Endpoint.Aborted()
	}
	for i, err := range append(errs, Barrier(t.Context(), c)) {
		var re *RankError
		if !errors.As(err, &re) || !errors.Is(err, ErrCanceled) || !errors.Is(err, kind) {
			return fmt.Errorf("call %d: %v, want %v", i, err, kind)
		}
	}
	return nil
}

// TestContextsEnd: in whatever call a rank is when its context ends, the errors of all ranks, on whatever hosts, match
// the context's error, in this call and in the next, including the error of a rank that was in no call.
func TestContextsEnd(t *testing.T) {
	hosts := []int{0, 1, 1}
	var all []func()
	for _, form := range boundForms {
		for _, ending := range endings {
			report := func(where string, errs []error) {
				for r, err := range errs {
					if err != nil {
						t.Errorf("%s, %s, %s, rank %d: %v", form.name, ending.name, where, r, err)
					}
				}
			}
			all = append(all, func() {
				report("one host", runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
					return endsFor(t, c, form.call, ending.with, ending.kind)
				}, WithGraph(topo.UniformGraph(3))))
			}, func() {
				report("two hosts", runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
					return endsFor(t, c, form.call, ending.with, ending.kind)
				}, WithGraph(testutil.GraphOn(hosts))))
			})
		}
	}
	atOnce(all)
}

// TestContextEndsWithinSplit: all ranks are in a Split when the context of one ends, at any moment. Either the Split
// has made the communicator, or c has ended on all ranks, and so has the new one on those that have it.
func TestContextEndsWithinSplit(t *testing.T) {
	var all []func()
	for i := range testutil.Count(24, 400) {
		hosts := [][]int{{0, 0, 0}, {0, 1, 1}}[i%2]
		all = append(all, func() {
			var gaveUp, has [3]bool
			var parent, parts [3]error
			for r, err := range runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if err := Barrier(ctx, c); err != nil { // rank 0 may give up before all are out of it
					parent[c.Rank()] = err
					return err
				}
				if c.Rank() == 0 {
					time.AfterFunc(time.Duration(i*397%10000)*time.Microsecond, cancel)
				}
				part, err := c.Split(ctx, 0, 0)
				gaveUp[c.Rank()] = err != nil
				if err != nil && !errors.Is(err, context.Canceled) {
					return err
				}
				if part != nil { // other ranks may not have it
					has[c.Rank()], parts[c.Rank()] = true, Barrier(t.Context(), part)
				}
				parent[c.Rank()] = Barrier(t.Context(), c)
				if part != nil {
					part.Close()
				}
				return nil
			}, WithGraph(testutil.GraphOn(hosts))) {
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("hosts %v, %d, rank %d: %v", hosts, i, r, err)
				}
			}
			for r, err := range parts {
				if has[r] && gaveUp[0] != (err != nil) {
					t.Errorf("hosts %v, %d: rank 0 gave up: %v; rank %d has one, whose call: %v", hosts, i, gaveUp[0], r, err)
				}
			}
			for r, err := range parent {
				if gaveUp[0] != errors.Is(err, context.Canceled) || !gaveUp[0] && err != nil {
					t.Errorf("hosts %v, %d: rank 0 gave up: %v; the next call of rank %d: %v", hosts, i, gaveUp[0], r, err)
				}
			}
		})
	}
	atOnce(all)
}

// TestSubAfterItsContext: a member whose context has ended before its Sub ends the Sub for all, each time: it does not
// succeed even if the messages of the others have already arrived.
func TestSubAfterItsContext(t *testing.T) {
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range testutil.Count(6, 60) {
		for _, hosts := range [][]int{{0}, {0, 0}, {0, 1}, {0, 1, 1}} {
			last := len(hosts) - 1
			for r, err := range runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
				if c.Rank() == last*(i%2) {
					time.Sleep(time.Duration(i%3) * time.Millisecond)
					_, err := c.Sub(dead, []int{last, 0}[:min(len(hosts), 2)])
					return err
				} else if c.Rank()%last == 0 {
					_, err := c.Sub(t.Context(), []int{last, 0})
					return err
				}
				return Barrier(t.Context(), c)
			}, WithGraph(testutil.GraphOn(hosts))) {
				if !errors.Is(err, ErrCanceled) || !errors.Is(err, context.Canceled) {
					t.Errorf("hosts %v, %d, rank %d: %v, want ErrCanceled", hosts, i, r, err)
				}
			}
		}
	}
}
