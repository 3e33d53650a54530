package transport_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// testAbort checks that of many faults at once exactly one is elected, that every rank sees that one, also over others,
// and that later ones change nothing.
func testAbort(t *testing.T, open opener) {
	const size = 4
	l := transport.Layout{Size: size, Slots: 2, SlotBytes: 64}
	for _, failing := range []int{1, size} { // ranks
		all := opened(t, open, l)
		for r, e := range all {
			if f, ok := e.Aborted(); ok {
				t.Fatalf("rank %d has fault %+v before the first Abort", r, f)
			}
		}
		text := func(r, i int) string { return fmt.Sprintf("rank %d, try %d: ", r, i) + strings.Repeat("x", 100*r) }
		var wg sync.WaitGroup
		for r, e := range all[:failing] {
			for i := range 3 {
				wg.Go(func() { e.Abort(transport.Fault{Kind: transport.FaultDevice, Rank: r, Text: text(r, i)}) })
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
			f := testutil.AwaitFault(e)
			e.Abort(transport.Fault{Rank: -1, Text: "too late"})
			if again, _ := e.Aborted(); f != first || again != first {
				t.Errorf("rank %d sees %+v, then %+v, rank 0 sees %+v", r, f, again, first)
			}
		}
	}
}

// testFaultForms checks that Aborted returns the argument of Abort, cut to the limits of a fault.
func testFaultForms(t *testing.T, open opener) {
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
		all := opened(t, open, testutil.Pair(2, 64))
		all[1].Abort(c.in)
		if f := testutil.AwaitFault(all[0]); f != c.want {
			t.Errorf("Abort(%+v): Aborted() = %+v, want %+v", c.in, f, c.want)
		}
	}
}

// interrupted makes rank 1 of a layout wait for rank 0, in every way and from before, at or after the moment of an
// event, and passes the error that ended the wait to check.
func interrupted(t *testing.T, open opener, l transport.Layout, event func(all []transport.Endpoint),
	check func(t *testing.T, err error)) {
	waits := map[string]func(e transport.Endpoint, s transport.Sender, r transport.Receiver) error{
		"waiting for a chunk": func(e transport.Endpoint, _ transport.Sender, r transport.Receiver) error {
			return testutil.Receive(e, r, func(call.Header, []byte) error { return nil })
		},
		"waiting for a slot": func(e transport.Endpoint, s transport.Sender, _ transport.Receiver) error {
			return each(l.Slots+1, func(int) error { return testutil.Send(e, s, &call.Header{}, 8, func([]byte) {}) })
		},
	}
	moments := map[string]time.Duration{"before": -1, "at the same time": 0, "during": 20 * time.Millisecond}
	for state, wait := range waits {
		for moment, delay := range moments {
			t.Run(state+"/"+moment, func(t *testing.T) {
				t.Parallel() // an end of a connection that is made on demand is detected after a second
				all := opened(t, open, l)
				e, s, r := all[1], mustSender(t, all[1], 0, 0), mustReceiver(t, all[1], 0, 0)
				var err error
				fs := []func() error{func() error { err = wait(e, s, r); return nil }}
				if delay < 0 {
					event(all)
				} else {
					fs = append(fs, func() error { time.Sleep(delay); event(all); return nil })
				}
				together(t, fs...)
				check(t, err)
			})
		}
	}
}

// testAbortEndsWaiting checks that a wait ends with the fault that the peer, the rank itself or a third rank reports.
func testAbortEndsWaiting(t *testing.T, open opener) {
	l := testutil.Pair(2, 64)
	l.Size = 3
	for reporter, by := range map[string]int{"peer": 0, "self": 1, "third": 2} {
		t.Run(reporter, func(t *testing.T) {
			interrupted(t, open, l, func(all []transport.Endpoint) {
				all[by].Abort(transport.Fault{Rank: 0, Text: "the reason"})
			}, func(t *testing.T, err error) {
				if !errors.Is(err, testutil.ErrAborted) || !strings.Contains(err.Error(), "rank 0: the reason") {
					t.Errorf("waiting ended with %v, want the fault", err)
				}
			})
		})
	}
}

// testClose checks that a rank that closes is seen as closed by the other ranks, but not before, and that closing twice
// is no error.
func testClose(t *testing.T, open opener) {
	l := testutil.Pair(2, 64)
	l.Size = 3
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

// testCloseEndsWaiting checks that chunks that a rank sent before it closed can be read; then, and where there are
// none, the other ranks' waits end with ErrPeerClosed.
func testCloseEndsWaiting(t *testing.T, open opener) {
	interrupted(t, open, testutil.Pair(2, 64), func(all []transport.Endpoint) { _ = all[0].Close() },
		func(t *testing.T, err error) {
			if !errors.Is(err, transport.ErrPeerClosed) {
				t.Errorf("waiting ended with %v, want ErrPeerClosed", err)
			}
		})
	t.Run("after the last chunk", func(t *testing.T) {
		all, s, r := pair(t, open, 4, 64)
		for i := range 3 {
			send(t, s, i, 40)
		}
		if err := all[0].Close(); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			receive(t, r, i, 40)
		}
		err := testutil.Receive(all[1], r, func(call.Header, []byte) error { return nil })
		if !errors.Is(err, transport.ErrPeerClosed) {
			t.Errorf("TryPeek: %v, want ErrPeerClosed", err)
		}
	})
}

// testClosedEndpoint checks that after Close, the rank's own calls return errors or nothing, and never crash; a fault
// it knew stays known.
func testClosedEndpoint(t *testing.T, open opener) {
	all := opened(t, open, testutil.Pair(2, 64))
	e := all[0]
	s, r, b := mustSender(t, e, 0, 1), mustReceiver(t, e, 0, 1), e.Bell()
	fault := transport.Fault{Rank: 1, Text: "known"}
	all[1].Abort(fault)
	testutil.AwaitFault(e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.TryReserve(8); ok || !errors.Is(err, transport.ErrClosed) {
		t.Errorf("TryReserve = %v, %v, want ErrClosed", ok, err)
	}
	var h call.Header
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
		if f := testutil.AwaitFault(e); f != fault {
			t.Errorf("rank %d: Aborted() = %+v, want %+v", i, f, fault)
		}
	}
	t.Run("at the same time", func(t *testing.T) { closeUnderUse(t, open) })
}

// closeUnderUse closes an endpoint while other goroutines use it.
func closeUnderUse(t *testing.T, open opener) {
	for range 10 {
		all := opened(t, open, testutil.Pair(2, 64))
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
				err := testutil.Receive(e, r, func(call.Header, []byte) error { return nil })
				if !errors.Is(err, transport.ErrClosed) && !errors.Is(err, testutil.ErrAborted) {
					return fmt.Errorf("receiving on a closed endpoint: %v", err)
				}
				return nil
			})
	}
}
