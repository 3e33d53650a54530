package transport_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/tcp"
)

// childrenOf makes endpoints of members, ranks of parents, that use the connections of these.
func childrenOf(t *testing.T, parents []transport.Endpoint, members []int, l transport.Layout,
	id uint64) []transport.Endpoint {
	t.Helper()
	between := l
	between.HeapBytes = 0
	all, rooms := make([]transport.Endpoint, len(members)), make(map[int]int) // by the first member of a host
	for r, m := range members {
		of := parents[m].(*tcp.Endpoint)
		within, ranks := l, []int(nil)
		for q, n := range members {
			if of.SameHost(n) {
				within.Members, ranks = append(within.Members, q), append(ranks, n)
			}
		}
		o := of.Offer()
		if r == within.Members[0] {
			rooms[r] = o.Room
		}
		local, err := o.Join(rooms[within.Members[0]], ranks, within, r, string(rune('a'+id)))
		if err != nil {
			t.Fatal(err)
		}
		if all[r], err = of.Child(id, members, r, between, local); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// asChild makes endpoints that use the connections of others, which are closed then. Their sets have the number id.
func asChild(of opener, id uint64) opener {
	return func(t *testing.T, l transport.Layout) []transport.Endpoint {
		parents := of(t, l)
		children := childrenOf(t, parents, numbers.Below(l.Size), l, id)
		closeAll(t, parents)
		return children
	}
}

func closeAll(t *testing.T, all []transport.Endpoint) {
	t.Helper()
	for r, e := range all {
		if err := e.Close(); err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// passAround sends a number from each rank to the next one.
func passAround(t *testing.T, all []transport.Endpoint, number byte) {
	t.Helper()
	for r, e := range all {
		to := (r + 1) % len(all)
		s, err := e.Sender(0, to)
		if err == nil {
			err = testutil.Send(e, s, &call.Header{Seq: uint64(number)}, 1, func(b []byte) { b[0] = number })
		}
		rx, err2 := all[to].Receiver(0, r)
		if err = errors.Join(err, err2); err == nil {
			err = testutil.Receive(all[to], rx, func(_ call.Header, b []byte) error {
				if !slices.Equal(b, []byte{number}) {
					return errors.New("wrong contents")
				}
				return nil
			})
		}
		if err != nil {
			t.Errorf("number %d from rank %d to rank %d: %v", number, r, to, err)
		}
	}
}

// A child that fails, or ends, leaves its parent and its siblings alone. The connections last as long as any of them.
func TestChildrenFailAlone(t *testing.T) {
	inTurn := func(r int) int { return r % 2 }
	l := transport.Layout{Size: 4, Slots: 4, SlotBytes: 32 << 10}
	parents := overTCP(inTurn, false, false)(t, l)
	failing := childrenOf(t, parents, []int{0, 1, 2, 3}, l, 1)
	l.Slots, l.SlotBytes = 2, 64
	other := childrenOf(t, parents, []int{3, 2, 1, 0}, l, 2)
	for i, all := range [][]transport.Endpoint{parents, failing, other} {
		passAround(t, all, byte(i))
	}
	want := transport.Fault{Kind: transport.FaultAborted, Rank: 3, Text: "alone"}
	failing[3].Abort(want)
	for r, e := range failing {
		if f := testutil.AwaitFault(e); f != want {
			t.Errorf("rank %d: fault %+v", r, f)
		}
	}
	closeAll(t, failing)
	for i, all := range [][]transport.Endpoint{parents, other} {
		for r, e := range all {
			if f, failed := e.Aborted(); failed {
				t.Errorf("set %d: rank %d has the fault of another set: %+v", i, r, f)
			}
		}
		passAround(t, all, byte(i))
	}
	closeAll(t, parents)
	passAround(t, other, 9)
	closeAll(t, other)
}

// A rank that has closed its end of a child before there is a connection refuses what arrives on it later.
func TestChildClosedBeforeTheConnection(t *testing.T) {
	l := transport.Layout{Size: 2, Slots: 2, SlotBytes: 64}
	parents := overTCP(func(r int) int { return r }, false, true)(t, l)
	children := childrenOf(t, parents, []int{0, 1}, l, 1)
	if err := children[1].Close(); err != nil {
		t.Error(err)
	}
	s, err := children[0].Sender(0, 1)
	for end := time.Now().Add(testutil.Limit); err == nil && time.Now().Before(end); {
		err = testutil.Send(children[0], s, &call.Header{}, 60, func([]byte) {})
	}
	if !errors.Is(err, transport.ErrPeerClosed) {
		t.Errorf("error %v", err)
	}
	passAround(t, parents, 1)
	closeAll(t, children[:1])
	closeAll(t, parents)
}
