package transporttest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/transport"
)

// testAbort: of many faults at once exactly one is elected, every rank sees
// that one, and later ones change nothing.
func testAbort(t *testing.T, open Open) {
	const size = 4
	all := opened(t, open, transport.Layout{Size: size, Slots: 2, SlotBytes: 64})
	for r, e := range all {
		if f, ok := e.Aborted(); ok {
			t.Fatalf("rank %d has fault %+v before the first Abort", r, f)
		}
	}
	text := func(r, i int) string { return fmt.Sprintf("rank %d, try %d: ", r, i) + strings.Repeat("x", 100*r) }
	var wg sync.WaitGroup
	for r, e := range all {
		for i := range 3 {
			wg.Go(func() { e.Abort(transport.Fault{Rank: r, Text: text(r, i)}) })
		}
	}
	wg.Wait()
	first, ok := all[0].Aborted()
	if !ok {
		t.Fatal("no fault after Abort")
	}
	own := false
	for i := range 3 {
		own = own || first.Text == text(first.Rank, i)
	}
	if !own {
		t.Errorf("fault %+v is none of those reported", first)
	}
	for r, e := range all {
		e.Abort(transport.Fault{Rank: -1, Text: "too late"})
		if f := AwaitFault(e); f != first {
			t.Errorf("rank %d sees %+v, rank 0 sees %+v", r, f, first)
		}
	}
}

// testAbortApart: of faults at once every rank sees one that was reported, and
// keeps it. A single one reaches all, also over others.
func testAbortApart(t *testing.T, open Open) {
	const size = 4
	chain := transport.Layout{Size: size, Slots: 2, SlotBytes: 64}
	for r := 1; r < size; r++ {
		chain.Links = append(chain.Links, transport.Link{Src: r - 1, Dst: r}, transport.Link{Src: r, Dst: r - 1})
	}
	all := opened(t, open, chain)
	text := func(r int) string { return fmt.Sprintf("by rank %d", r) }
	var wg sync.WaitGroup
	for r, e := range all {
		wg.Go(func() { e.Abort(transport.Fault{Rank: r, Text: text(r)}) })
	}
	wg.Wait()
	for r, e := range all {
		first, ok := e.Aborted()
		if !ok || first.Rank < 0 || first.Rank >= size || first.Text != text(first.Rank) {
			t.Errorf("rank %d sees %+v, %v, which nobody reported", r, first, ok)
		}
		e.Abort(transport.Fault{Rank: -1, Text: "too late"})
		if f, ok := e.Aborted(); !ok || f != first {
			t.Errorf("rank %d sees %+v after %+v", r, f, first)
		}
	}
	all = opened(t, open, chain)
	want := transport.Fault{Rank: 2, Text: "the only one"}
	all[0].Abort(want)
	for r, e := range all {
		if f := AwaitFault(e); f != want {
			t.Errorf("rank %d sees %+v, want %+v", r, f, want)
		}
	}
}

// AwaitFault returns the fault of e's set, for which it waits up to Limit.
func AwaitFault(e transport.Endpoint) transport.Fault {
	for end := time.Now().Add(Limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if f, ok := e.Aborted(); ok {
			return f
		}
	}
	return transport.Fault{Rank: -1, Text: "no fault"}
}

// testFaultForms: what Abort is given comes out, cut to what fits.
func testFaultForms(t *testing.T, open Open) {
	long := strings.Repeat("ä", transport.MaxFaultText) // two bytes each
	for _, c := range []struct{ in, want transport.Fault }{
		{transport.Fault{Rank: -1}, transport.Fault{Rank: -1}},
		{transport.Fault{Kind: transport.FaultDevice, Rank: 1, Text: "a"},
			transport.Fault{Kind: transport.FaultDevice, Rank: 1, Text: "a"}},
		{transport.Fault{Rank: 7, Text: "b"}, transport.Fault{Rank: -1, Text: "b"}},
		{transport.Fault{Rank: -9, Text: "b"}, transport.Fault{Rank: -1, Text: "b"}},
		{transport.Fault{Rank: 0, Text: long}, transport.Fault{Rank: 0, Text: long[:transport.MaxFaultText]}},
		{transport.Fault{Rank: 0, Text: "x" + long}, transport.Fault{Rank: 0, Text: ("x" + long)[:transport.MaxFaultText-1]}},
	} {
		all := opened(t, open, Pair(2, 64))
		all[1].Abort(c.in)
		if f := AwaitFault(all[0]); f != c.want {
			t.Errorf("Abort(%+v): Aborted() = %+v, want %+v", c.in, f, c.want)
		}
	}
}

// states are the ways in which rank 1 can be waiting for rank 0, each a
// function that does not end by itself.
func states(t *testing.T, all []transport.Endpoint) map[string]func() error {
	e := all[1]
	in, out := mustReceiver(t, e, 0, 0), mustSender(t, e, 0, 0)
	return map[string]func() error{
		"waiting for a chunk": func() error {
			return Receive(e, in, func(transport.Header, []byte) error { return nil })
		},
		"waiting for a slot": func() error {
			for {
				if err := Send(e, out, &transport.Header{}, 8, func([]byte) {}); err != nil {
					return err
				}
			}
		},
	}
}

var stateNames = []string{"waiting for a chunk", "waiting for a slot"}

// moments are when the event comes, relative to the wait.
var moments = map[string]time.Duration{"before": -1, "at the same time": 0, "during": 20 * time.Millisecond}

// testAbortEndsWaiting: each blocking state x {abort before, at the same time,
// during} x {by the peer, by the rank itself, by a third} ends with the fault.
func testAbortEndsWaiting(t *testing.T, open Open) {
	for _, state := range stateNames {
		for moment, delay := range moments {
			for who, by := range map[string]int{"peer": 0, "self": 1, "third": 2} {
				t.Run(state+"/"+moment+"/"+who, func(t *testing.T) {
					l := Pair(2, 64)
					l.Size = 3
					all := opened(t, open, l)
					abort := func() { all[by].Abort(transport.Fault{Rank: 0, Text: "the reason"}) }
					err := interrupt(t, states(t, all)[state], abort, delay)
					if !errors.Is(err, errAborted) || !strings.Contains(err.Error(), "rank 0: the reason") {
						t.Errorf("waiting ended with %v, want the fault", err)
					}
				})
			}
		}
	}
}

// interrupt runs wait and, at the moment given, event; it returns wait's error.
func interrupt(t *testing.T, wait func() error, event func(), delay time.Duration) (err error) {
	t.Helper()
	if delay < 0 {
		event()
		together(t, func() error { err = wait(); return nil })
		return err
	}
	together(t,
		func() error { err = wait(); return nil },
		func() error { time.Sleep(delay); event(); return nil })
	return err
}

// testClose: a rank that closes is seen as closed by the others and by
// nobody before; closing twice is no error.
func testClose(t *testing.T, open Open) {
	l := Pair(2, 64)
	l.Size = 3
	l.Links = append(l.Links, transport.Link{Src: 1, Dst: 2})
	all := opened(t, open, l)
	for range 2 {
		if err := all[1].Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	for _, r := range []int{0, 2} {
		if !soon(func() bool { return all[r].Status(1).Closed }) {
			t.Errorf("rank %d does not see that rank 1 has closed", r)
		}
		for _, q := range []int{0, 2} {
			if all[r].Status(q).Closed {
				t.Errorf("rank %d sees rank %d as closed", r, q)
			}
		}
		if f, ok := all[r].Aborted(); ok {
			t.Errorf("rank %d sees fault %+v although all is well", r, f)
		}
	}
}

// testCloseEndsWaiting: what a rank sent before it closed can be read; then,
// and where there is nothing, the others' waits end with ErrPeerClosed.
func testCloseEndsWaiting(t *testing.T, open Open) {
	for _, state := range stateNames {
		for moment, delay := range moments {
			t.Run(state+"/"+moment, func(t *testing.T) {
				all := opened(t, open, Pair(2, 64))
				err := interrupt(t, states(t, all)[state], func() { _ = all[0].Close() }, delay)
				if !errors.Is(err, transport.ErrPeerClosed) {
					t.Errorf("waiting ended with %v, want ErrPeerClosed", err)
				}
			})
		}
	}
	t.Run("after the last chunk", func(t *testing.T) {
		all, s, r := pair(t, open, 4, 64)
		for i := range 3 {
			w, _, _ := s.TryReserve(40)
			fillWith(i)(w)
			h := header(i)
			s.Commit(&h)
		}
		if err := all[0].Close(); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			var h transport.Header
			b, ok, err := peek(r, &h)
			if !ok || err != nil {
				t.Fatalf("chunk %d of a closed peer: %v, %v", i, ok, err)
			}
			if err := checkFilled(b, i); err != nil || h != header(i) {
				t.Error(err, h)
			}
			r.Release()
		}
		var h transport.Header
		if _, ok, err := peek(r, &h); ok || !errors.Is(err, transport.ErrPeerClosed) {
			t.Errorf("TryPeek = %v, %v, want ErrPeerClosed", ok, err)
		}
	})
}

// testClosedEndpoint: after Close, the rank's own calls return errors or
// nothing, and never crash; a fault it knew stays known.
func testClosedEndpoint(t *testing.T, open Open) {
	all := opened(t, open, Pair(2, 64))
	e := all[0]
	s, r, b := mustSender(t, e, 0, 1), mustReceiver(t, e, 0, 1), e.Bell()
	fault := transport.Fault{Rank: 1, Text: "known"}
	all[1].Abort(fault)
	AwaitFault(e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.TryReserve(8); ok || !errors.Is(err, transport.ErrClosed) {
		t.Errorf("TryReserve = %v, %v, want ErrClosed", ok, err)
	}
	var h transport.Header
	if _, ok, err := r.TryPeek(&h); ok || !errors.Is(err, transport.ErrClosed) {
		t.Errorf("TryPeek = %v, %v, want ErrClosed", ok, err)
	}
	e.Enter(&h)
	_ = e.Status(1)
	e.Abort(transport.Fault{Rank: 0, Text: "late"})
	b.Ring()
	b.Prepare()
	b.Sleep(time.Millisecond)
	b.Prepare()
	b.Cancel()
	for i, e := range all {
		if f := AwaitFault(e); f != fault {
			t.Errorf("rank %d: Aborted() = %+v, want %+v", i, f, fault)
		}
	}
	t.Run("at the same time", func(t *testing.T) { closeUnderUse(t, open) })
}

// closeUnderUse closes an endpoint while others use it from other goroutines.
func closeUnderUse(t *testing.T, open Open) {
	for range 10 {
		all := opened(t, open, Pair(2, 64))
		e := all[0]
		r := mustReceiver(t, e, 0, 1)
		together(t,
			func() error { time.Sleep(2 * time.Millisecond); return e.Close() },
			func() error {
				for !all[1].Status(0).Closed {
					_, _ = e.Aborted()
					_ = e.Status(1)
					e.Bell().Ring()
				}
				e.Abort(transport.Fault{Rank: 0, Text: "late"})
				return nil
			},
			func() error {
				err := Receive(e, r, func(transport.Header, []byte) error { return nil })
				if !errors.Is(err, transport.ErrClosed) && !errors.Is(err, errAborted) {
					return fmt.Errorf("receiving on a closed endpoint: %v", err)
				}
				return nil
			})
	}
}
