package shm

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// connectMembers connects two of five ranks: numbers are those of the whole job, and only the two take part in the
// exchange.
func connectMembers(t *testing.T, doorbell bool) map[int]transport.Endpoint {
	t.Helper()
	l := transport.Layout{Size: 5, Members: []int{1, 4}, Slots: 2, SlotBytes: 256, HeapBytes: 2 << 20}
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Limit)
	defer cancel()
	tab := newTable(2)
	all := make([]transport.Endpoint, 2)
	var wg sync.WaitGroup
	for i, r := range l.Members {
		cfg := Config{Rank: r, Layout: l, Key: testKey, JobID: "test", Doorbell: doorbell, Exchange: tab.exchange(i)}
		wg.Go(func() {
			var err error
			if all[i], err = Connect(ctx, cfg); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() {
		for _, e := range all {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return map[int]transport.Endpoint{1: all[0], 4: all[1]}
}

func TestMembersAreSomeRanks(t *testing.T) {
	all := connectMembers(t, false)
	s, err := all[1].Sender(0, 4)
	if err != nil {
		t.Fatal(err)
	}
	r, err := all[4].Receiver(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	block, err := all[1].Alloc(200)
	if err != nil {
		t.Fatal(err)
	}
	block[0] = 7
	if _, ok, err := s.TryReserve(0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	s.Lend(&call.Header{Seq: 1}, block, false)
	var h call.Header
	if b, ok, err := r.TryPeek(&h); !ok || err != nil || len(b) != 200 || b[0] != 7 || h.Seq != 1 {
		t.Fatalf("%d bytes, %+v, %v, %v", len(b), h, ok, err)
	}
	r.Release()
	all[4].Abort(transport.Fault{Rank: 3, Text: "elsewhere"})
	if f, ok := all[1].Aborted(); !ok || f != (transport.Fault{Rank: 3, Text: "elsewhere"}) {
		t.Errorf("fault %+v, %v", f, ok)
	}
	if _, err := all[1].Sender(0, 2); err == nil {
		t.Error("a link to a rank that is no member")
	}
}

// A rank that sleeps on a doorbell wakes up for the bell and for the descriptor.
func TestDoorbellAndDescriptor(t *testing.T) {
	all := connectMembers(t, true)
	b := all[1].Bell().(*Bell)
	other := all[4].Bell().(*Bell).bells.own.FD() // readable when rank 4 is rung
	for _, c := range []struct {
		name string
		wake func()
	}{
		{"bell", func() { all[1].Bell().Ring() }},
		{"descriptor", func() { b.bells.ring(4) }},
	} {
		start := time.Now()
		b.Prepare()
		go func() {
			time.Sleep(5 * time.Millisecond)
			c.wake()
		}()
		b.SleepOn(other, 3*testutil.Limit, nil)
		if d := time.Since(start); d > 2*testutil.Limit {
			t.Errorf("%s: slept %v", c.name, d)
		}
	}
}
