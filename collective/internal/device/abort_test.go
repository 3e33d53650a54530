//go:build cgo && linux

package device

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
	"github.com/treerun/treerun/transport"
)

// patience is the time that a test waits for events that take milliseconds.
const patience = 2 * time.Minute

func fromTrees(t *testing.T, n int, kind plan.Kind, form plan.Form) *plan.Plan {
	t.Helper()
	trees := make([]topo.Tree, n)
	for r := range trees {
		trees[r] = tree.Binomial(n, r)
	}
	p, err := plan.FromTrees(kind, trees, nil, form)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drained waits for a stream of rank r, which nothing may hold up.
func (m *machine) drained(s *cuda.Stream) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.Synchronize(ctx)
}

var errTest = errors.New("the test says so")

// TestAbort lets all ranks but the last call, a large message and a small one,
// and one of them abort, in the middle of it. All streams come to their end, and
// all ranks know.
func TestAbort(t *testing.T) {
	for _, count := range []int{5, 200000} {
		t.Run(fmt.Sprintf("%d elements", count), func(t *testing.T) {
			const n = 4
			plans := []*plan.Plan{fromTrees(t, n, plan.AllReduce, plan.Split)}
			before := cuda.Stats()
			m := start(t, plans, how{slots: 2, slotBytes: 4096, first: 1<<32 - 10,
				apart: func(src, dst int) bool { return (src+dst)%2 > 0 },
				push:  func(src, dst int) bool { return src > dst }})
			small := count < 1000 // it fits into the streams
			var enqueued sync.WaitGroup
			enqueued.Add(n - 1)
			go func() {
				if small {
					enqueued.Wait()
				}
				time.Sleep(100 * time.Millisecond)
				m.groups[1].Abort(errTest)
			}()
			m.each(func(r int) error {
				if r == n-1 {
					return nil
				}
				s, err := m.devices[r].NewStream()
				if err != nil {
					return err
				}
				defer s.Close()
				u, err := m.enqueue(r, s, &testCall{count: count, dtype: kernel.Float32, op: kernel.Sum, seq: 1}, 0)
				enqueued.Done()
				if small && err != nil {
					return err
				}
				if err := m.drained(s); err != nil {
					return err
				}
				want := ErrAborted
				if r == 1 {
					want = errTest
				}
				if err := m.groups[r].Err(); !errors.Is(err, want) {
					return fmt.Errorf("fault %v, want %v", err, want)
				}
				if err := m.groups[r].Enqueue(0, s, new(Call)); !errors.Is(err, want) {
					return fmt.Errorf("a later call: %v, want %v", err, want)
				}
				for _, a := range u.buffers() {
					if err := a.Free(); err != nil {
						return err
					}
				}
				return nil
			})
			if err := m.groups[n-1].Err(); !errors.Is(err, ErrAborted) {
				t.Errorf("the rank that did not call: %v", err)
			}
			m.close()
			if after := cuda.Stats(); after != leftOpen(before, after) {
				t.Errorf("open before %+v, after %+v", before, after)
			}
		})
	}
}

// leftOpen is before, with the contexts of after, which stay.
func leftOpen(before, after cuda.Counts) cuda.Counts {
	before.Contexts = after.Contexts
	return before
}

// TestAbortWhileOthersRun aborts at some moment of a row of calls that all ranks
// make. No result that a rank may believe is wrong.
func TestAbortWhileOthersRun(t *testing.T) {
	const n, calls = 4, 40
	for _, hosts := range []int{1, 2} {
		plans := []*plan.Plan{fromTrees(t, n, plan.AllReduce, plan.Split)}
		m := start(t, plans, how{slots: 2, slotBytes: 1024, hosts: func(r int) int { return r % hosts },
			apart: func(src, dst int) bool { return src > dst }, push: func(src, dst int) bool { return dst == 3 }})
		time.AfterFunc(30*time.Millisecond, func() {
			for _, r := range []int{2, 3} { // one of each host
				m.groups[r].Abort(errTest)
			}
		})
		m.each(func(r int) error {
			s, err := m.devices[r].NewStream()
			if err != nil {
				return err
			}
			defer s.Close()
			var all []*under
			defer func() {
				for _, u := range all {
					for _, a := range u.all {
						a.Free()
					}
				}
			}()
			for i := range calls {
				u, err := m.enqueue(r, s, &testCall{count: 5000, dtype: kernel.Int32, op: kernel.Sum, seq: uint64(i + 1)}, 0)
				all = append(all, u)
				if err == nil {
					err = m.check(r, s, u)
				}
				if errors.Is(err, errTest) || errors.Is(err, ErrAborted) {
					return m.drained(s)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		m.close()
	}
}

// TestEndpointFault: a rank on another host reports a fault.
func TestEndpointFault(t *testing.T) {
	const n = 4
	reported := make(chan error, n)
	plans := []*plan.Plan{fromTrees(t, n, plan.AllReduce, plan.Split)}
	m := start(t, plans, how{slots: 2, slotBytes: 4096, hosts: func(r int) int { return r / 2 },
		failed: func(_ int, err error) { reported <- err }})
	var enqueued sync.WaitGroup
	enqueued.Add(n - 1)
	go func() {
		enqueued.Wait()
		time.Sleep(50 * time.Millisecond)
		m.eps[3].Abort(transport.Fault{Rank: 3, Text: "rank 3 is gone"})
	}()
	m.each(func(r int) error {
		if r == 3 {
			return nil
		}
		s, err := m.devices[r].NewStream()
		if err != nil {
			return err
		}
		defer s.Close()
		u, err := m.enqueue(r, s, &testCall{count: 100, dtype: kernel.Float32, op: kernel.Sum, seq: 1}, 0)
		enqueued.Done()
		if err != nil {
			return err
		}
		defer func() {
			for _, a := range u.all {
				a.Free()
			}
		}()
		return m.drained(s)
	})
	fault := new(EndpointFault)
	if err := <-reported; !errors.As(err, &fault) && !errors.Is(err, ErrAborted) {
		t.Errorf("reported %v", err)
	}
	for r := range 2 {
		if err := m.groups[r].Err(); !errors.As(err, &fault) && !errors.Is(err, ErrAborted) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	m.close()
}

// TestMismatch has two hosts whose ranks make different calls.
func TestMismatch(t *testing.T) {
	plans := []*plan.Plan{fromTrees(t, 2, plan.AllReduce, plan.Split)}
	m := start(t, plans, how{slots: 2, slotBytes: 4096, hosts: func(r int) int { return r }})
	found := make([]bool, 2)
	m.each(func(r int) error {
		s, err := m.devices[r].NewStream()
		if err != nil {
			return err
		}
		defer s.Close()
		u, err := m.enqueue(r, s, &testCall{count: 100, dtype: kernel.Int32, op: kernel.Sum + kernel.Op(r), seq: 1}, 0)
		if err != nil && (u == nil || m.groups[r].Err() == nil) { // else it is already detected
			m.groups[1-r].Abort(errTest) // which would wait forever
			return err
		}
		if err := backoff.Poll(time.Millisecond, m.groups[r].Err, func() (bool, error) { return false, nil }); err == nil {
			return errors.New("the wait for a failure ended without one")
		}
		m.groups[1-r].Abort(errTest) // as a communicator does
		var mismatch *Mismatch
		found[r] = errors.As(m.groups[r].Err(), &mismatch) && mismatch.Peer == 1-r &&
			mismatch.Theirs.What != mismatch.Mine.What
		if err := m.drained(s); err != nil {
			return err
		}
		for _, a := range u.all {
			if err := a.Free(); err != nil {
				return err
			}
		}
		return nil
	})
	if !found[0] && !found[1] {
		t.Errorf("no mismatch: %v, %v", m.groups[0].Err(), m.groups[1].Err())
	}
	m.close()
}

// An abort lets waits pass for all numbers of payloads and of slots, which grow apart on links whose payloads lie in
// the slots of others.
func TestAbortPassesSlots(t *testing.T) {
	p, err := plan.Direct(plan.AllToAll, 2, -1, plan.Single)
	if err != nil {
		t.Fatal(err)
	}
	d := newDry(t, []*plan.Plan{p}, 4, 256, 2, 0)
	x := d.ranks[1].x
	for i := range x.links.states {
		x.links.states[i].count += 3 << 29
	}
	c := d.buffers(p, 1, 100, false)
	x.begin(&x.links.layout.plans[0], &c)
	x.links.passAll()
	for i, k := range x.links.layout.links {
		if k.Dst == 1 && !x.links.reached(i, published, x.links.states[i].slots+1) {
			t.Errorf("link %+v: a wait for its next slot does not pass", k.Link)
		}
	}
}
