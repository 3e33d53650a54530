package segment

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// TestNoWakeIsLost lets Commit and Prepare-then-poll race as closely as two
// cores can: the owner never really sleeps, it spins until it is rung, so a
// round takes a fraction of a microsecond and there are many of them. A round
// in which the owner saw no chunk and the sender no prepared bell never ends.
// (On amd64, with a plain store in place of the sequentially consistent one in
// Commit, a run of a million rounds on two free cores finds one that is lost.)
func TestNoWakeIsLost(t *testing.T) {
	const rounds = 1_000_000
	end := time.Now().Add(time.Second) // more is not needed where cores are taken
	m, err := NewMap(transport.Layout{Size: 2, Slots: 2, SlotBytes: 64})
	if err != nil {
		t.Fatal(err)
	}
	b, p := Heap(m.Bytes), newParts()
	var wakes atomic.Int64
	wake := func(int) { wakes.Add(1) }
	s, err := New(m, b, 0, wake, p).Sender(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	owner := New(m, b, 1, wake, p)
	var received atomic.Int64
	stop := make(chan struct{})
	go sendApart(s, rounds, &received, stop)
	defer close(stop)

	r, err := owner.Receiver(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	slept, sink := 0, 0
	for i := range rounds {
		if i%1000 == 0 && time.Now().After(end) {
			break
		}
		pause(i*11%257, &sink)
		slept += sleepless(t, owner.BellWord(1), r)
		r.Release()
		received.Store(int64(i + 1))
	}
	for int64(slept) > wakes.Load() && time.Now().Before(end.Add(time.Minute)) {
		runtime.Gosched() // the last wake is counted after its word has changed
	}
	if int64(slept) != wakes.Load() {
		t.Errorf("%d wakes for %d sleeps", wakes.Load(), slept)
	}
}

// sendApart sends one chunk after another, each after the last was received
// and a pause that changes from round to round.
func sendApart(s transport.Sender, rounds int, received *atomic.Int64, stop <-chan struct{}) {
	var sink int
	for i := range rounds {
		for spins := 0; received.Load() != int64(i); spins++ {
			if spins%1000 == 999 {
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		}
		pause(i*7%61, &sink)
		if _, ok, err := s.TryReserve(8); !ok || err != nil {
			return // the owner reports it by its deadline
		}
		s.Commit(&call.Header{})
	}
}

// pause takes about n nanoseconds. The sink is the caller's own.
//
//go:noinline
func pause(n int, sink *int) {
	for k := range n {
		*sink += k ^ n
	}
}

// sleepless prepares to sleep, and while there is no chunk waits to be rung; it
// returns how often it was. A chunk is there when it returns. (It may be rung
// once for nothing: by the Commit of a chunk that it had found already.)
func sleepless(t *testing.T, bell *BellWord, r transport.Receiver) (rung int) {
	var h call.Header
	for {
		bell.Prepare()
		if _, ok, err := r.TryPeek(&h); err != nil {
			t.Fatal(err)
		} else if ok {
			if !bell.Cancel() {
				rung++
			}
			return rung
		}
		awaitRing(t, bell)
		rung++
	}
}

func awaitRing(t *testing.T, bell *BellWord) {
	var limit time.Time
	for spins := 1; !bell.Rung(); spins++ {
		if spins%5000 == 0 {
			runtime.Gosched()
			if limit.IsZero() {
				limit = time.Now().Add(time.Minute)
			} else if time.Now().After(limit) {
				t.Fatal("a wake was lost: the chunk came after the poll, and the bell was not rung")
			}
		}
	}
}
