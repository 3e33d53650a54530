package tcp_test

import (
	"sync"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/tcp"
)

// The lowest rank that is left decides which fault is the first, also where ranks below it on its own host, with which
// it has no connection, have ended, and where ranks of another host have ended while their connections last.
func TestLowestRankLeftDecides(t *testing.T) {
	var mu sync.Mutex
	gone := map[int]bool{}
	hosts := []int{0, 0, 0, 1, 1, 1}
	all := openWith(t, transport.Layout{Size: 6, Slots: 2, SlotBytes: 64}, hosts, func(r int, cfg *tcp.Config) {
		cfg.Gone = func(r int) bool {
			mu.Lock()
			defer mu.Unlock()
			return gone[r]
		}
	})
	lost := transport.Fault{Kind: transport.FaultLost, Rank: 0}
	check := func(what string, decides int) {
		t.Helper()
		for r := 1; r < len(all); r++ {
			if got := all[r].(*tcp.Endpoint).Decides(lost); r >= decides && got != (r == decides) {
				t.Errorf("%s: rank %d decides: %v", what, r, got)
			}
		}
	}
	check("rank 0 is lost", 1)
	mu.Lock()
	gone[0], gone[1] = true, true
	mu.Unlock()
	check("ranks 0 and 1 are lost", 2)
	if err := all[2].Close(); err != nil {
		t.Error(err)
	}
	check("rank 2 has left, too", 3)
	mu.Lock()
	gone[3] = true
	mu.Unlock()
	check("rank 3 is lost, and its connections last", 4)
	for _, r := range []int{0, 1, 3, 4, 5} {
		if err := all[r].Close(); err != nil {
			t.Error(err)
		}
	}
}

// A rank has decided, and has ended before it sent the decision to another host: the other ranks of its host send it.
func TestDecisionOfOneThatEnds(t *testing.T) {
	all := open(t, transport.Layout{Size: 4, Slots: 2, SlotBytes: 64}, []int{0, 0, 1, 1})
	want := transport.Fault{Kind: transport.FaultAborted, Rank: 3, Text: "the decision"}
	all[0].(*tcp.Endpoint).DecideHere(want)
	for r, e := range all {
		if f := testutil.AwaitFault(e); f != want {
			t.Errorf("rank %d: fault %+v", r, f)
		}
	}
	for r, e := range all {
		if err := e.Close(); err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
