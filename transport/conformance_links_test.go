package transport_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// testOrder sends many chunks through few slots: each arrives once, in order,
// with its own header and payload, over many laps.
func testOrder(t *testing.T, open opener) {
	for _, slots := range []int{2, 4, 16} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			all, s, r := pair(t, open, slots, 128)
			const chunks = 5000
			together(t,
				func() error { return each(chunks, func(i int) error { return sendSome(all[0], s, i, 128) }) },
				func() error { return each(chunks, func(i int) error { return receiveSome(all[1], r, i, 128) }) })
		})
	}
}

// each calls f with the numbers of chunks until it returns an error.
func each(chunks int, f func(i int) error) error {
	for i := range chunks {
		if err := f(i); err != nil {
			return fmt.Errorf("chunk %d of %d: %w", i, chunks, err)
		}
	}
	return nil
}

// sizeOf varies the payload from 0 to limit bytes, with inline ones in between.
func sizeOf(i, limit int) int { return (i * 37) % (limit + 1) }

func sendSome(e transport.Endpoint, s transport.Sender, i, limit int) error {
	h := header(i)
	return testutil.Send(e, s, &h, sizeOf(i, limit), fillWith(i))
}

func receiveSome(e transport.Endpoint, r transport.Receiver, i, limit int) error {
	return testutil.Receive(e, r, func(h call.Header, b []byte) error {
		return checkChunk(h, b, i, sizeOf(i, limit))
	})
}

// testSizes sends every size around the inline limit, the cache line and the
// slot size, and checks that a window's capacity ends with it.
func testSizes(t *testing.T, open opener) {
	const slot = 4096
	_, s, r := pair(t, open, 4, slot)
	for i, n := range []int{0, 1, 7, 8, transport.MaxInline - 1, transport.MaxInline, transport.MaxInline + 1, 63, 64, 65,
		slot - 1, slot} {
		if w := reserve(t, s, n); cap(w) != n {
			t.Errorf("TryReserve(%d) returns a window of %d bytes", n, cap(w))
		}
		send(t, s, i, n)
		if b := peek(t, r, i, n); cap(b) != n {
			t.Errorf("TryPeek of %d bytes returns a window of %d bytes", n, cap(b))
		}
		r.Release()
	}
}

// testFullEmpty fills and drains a link: exactly Slots chunks fit, and each Release frees one slot.
func testFullEmpty(t *testing.T, open opener) {
	const slots, size = 4, 64
	_, s, r := pair(t, open, slots, size)
	full := func() {
		t.Helper()
		if _, ok, err := s.TryReserve(size); ok || err != nil {
			t.Fatalf("TryReserve = %v, %v of a full link", ok, err)
		}
	}
	for range 3 { // laps
		nothing(t, r)
		for i := range slots {
			send(t, s, i, size)
		}
		full()
		peek(t, r, 0, size)
		full() // TryPeek frees nothing
		r.Release()
		send(t, s, slots, size)
		full()
		for i := range slots {
			receive(t, r, i+1, size)
		}
	}
}

// testStable checks that repeated calls return the same window with the same contents, and that a window is not seen
// before Commit.
func testStable(t *testing.T, open opener) {
	for _, n := range []int{8, 200} {
		_, s, r := pair(t, open, 2, 256)
		w := reserve(t, s, n)
		fillWith(1)(w)
		if again := reserve(t, s, n); &again[0] != &w[0] {
			t.Fatal("second TryReserve gave another window")
		}
		nothing(t, r)
		h := header(1)
		s.Commit(&h)
		b := peek(t, r, 1, n)
		send(t, s, 2, n) // the other slot
		if again := peek(t, r, 1, n); &again[0] != &b[0] {
			t.Fatal("second TryPeek gave another window")
		}
		r.Release()
		receive(t, r, 2, n)
	}
}

// testSeparate uses a layout in which lanes and directions could be mixed up.
func testSeparate(t *testing.T, open opener) {
	const size, lanes = 3, 2
	var links []transport.Link
	for i := range lanes * size * size {
		if k := (transport.Link{Lane: i % lanes, Src: i / lanes % size, Dst: i / lanes / size}); k.Src != k.Dst {
			links = append(links, k)
		}
	}
	all := opened(t, open, transport.Layout{Size: size, Slots: 2, SlotBytes: 64})
	id := func(k transport.Link, n int) int { return k.Lane*100 + k.Src*10 + k.Dst + n }
	for _, k := range links {
		for _, n := range []int{20, 60} {
			send(t, mustSender(t, all[k.Src], k.Lane, k.Dst), id(k, n), n)
		}
	}
	for _, k := range links {
		for _, n := range []int{20, 60} {
			receive(t, mustReceiver(t, all[k.Dst], k.Lane, k.Src), id(k, n), n)
		}
	}
}

func testNoLink(t *testing.T, open opener) {
	const none = transport.MaxLanes
	all := opened(t, open, transport.Layout{Size: 2, Slots: 2, SlotBytes: 64})
	for _, k := range []struct{ rank, lane, peer int }{{0, -1, 1}, {0, none, 1}, {0, 1, 0}, {0, 1, 2}, {0, 1, -1}} {
		if _, err := all[k.rank].Sender(k.lane, k.peer); !errors.Is(err, transport.ErrNoLink) {
			t.Errorf("Sender(%d, %d) of rank %d: %v, want ErrNoLink", k.lane, k.peer, k.rank, err)
		}
	}
	for _, k := range []struct{ rank, lane, peer int }{{1, -1, 0}, {1, none, 0}, {1, 1, 1}, {1, 1, 2}, {1, 1, -1}} {
		if _, err := all[k.rank].Receiver(k.lane, k.peer); !errors.Is(err, transport.ErrNoLink) {
			t.Errorf("Receiver(%d, %d) of rank %d: %v, want ErrNoLink", k.lane, k.peer, k.rank, err)
		}
	}
	if mustSender(t, all[0], 1, 1) != mustSender(t, all[0], 1, 1) ||
		mustReceiver(t, all[1], 1, 0) != mustReceiver(t, all[1], 1, 0) {
		t.Error("two calls gave two ends of one link")
	}
	if all[0].MaxPayload() != 64 {
		t.Errorf("MaxPayload %d, want 64", all[0].MaxPayload())
	}
}

// testTooLarge checks that a payload that does not fit a slot gives an error and does no harm.
func testTooLarge(t *testing.T, open opener) {
	_, s, r := pair(t, open, 2, 128)
	for _, n := range []int{129, 1 << 40, -1} {
		if _, ok, err := s.TryReserve(n); ok || err == nil {
			t.Errorf("TryReserve(%d) = %v, %v, want an error", n, ok, err)
		}
	}
	send(t, s, 3, 128)
	receive(t, r, 3, 128)
}

// testRelay passes chunks around a ring of ranks, each reading its input window
// while it fills its output window, as collectives do.
func testRelay(t *testing.T, open opener) {
	const size, limit = 5, 512
	chunks := testutil.Count(200, 600)
	l := transport.Layout{Size: size, Slots: 2, SlotBytes: limit}
	all := opened(t, open, l)
	ranks := make([]func() error, size)
	for r, e := range all {
		in, out := mustReceiver(t, e, 0, (r+size-1)%size), mustSender(t, e, 0, (r+1)%size)
		turn := func(i int) error {
			return testutil.Receive(e, in, func(h call.Header, b []byte) error {
				return testutil.Send(e, out, &h, len(b), func(w []byte) { copy(w, b) })
			})
		}
		if r == 0 {
			turn = func(i int) error {
				if err := sendSome(e, out, i, limit); err != nil {
					return err
				}
				return receiveSome(e, in, i, limit)
			}
		}
		ranks[r] = func() error { return each(chunks, turn) }
	}
	together(t, ranks...)
}

// testOrdersHeap checks that accesses of a rank before Commit have happened for the rank that peeks, and accesses of
// that rank before Release for the one that reserves the slot again. It matters under the race detector, which must
// know this order.
func testOrdersHeap(t *testing.T, open opener) {
	const rounds = 100
	all, s, r := pair(t, open, 2, 64)
	var shared [2]int // plain memory, one for each slot
	together(t, func() error {
		return each(rounds, func(i int) error {
			return testutil.Send(all[0], s, &call.Header{}, 8, func([]byte) { shared[i%2]++ })
		})
	}, func() error {
		return each(rounds, func(i int) error {
			return testutil.Receive(all[1], r, func(call.Header, []byte) error {
				if shared[i%2]++; shared[i%2] != i/2*2+2 {
					return fmt.Errorf("count is %d", shared[i%2])
				}
				return nil
			})
		})
	})
}

// testAllocations checks that the path of a chunk allocates nothing.
func testAllocations(t *testing.T, open opener) {
	all, s, r := pair(t, open, 2, 128)
	h := header(1)
	bell := all[1].Bell()
	n := testing.AllocsPerRun(200, func() {
		for _, n := range []int{8, 100} {
			all[0].Enter(&h)
			ok := false
			var w []byte
			for !ok {
				w, ok, _ = s.TryReserve(n)
			}
			clear(w)
			s.Commit(&h)
			for ok = false; !ok; _, ok, _ = r.TryPeek(&h) {
			}
			r.Release()
			_, _, _ = r.TryPeek(&h)
			bell.Prepare()
			bell.Cancel()
			_, _ = all[1].Aborted()
			_ = all[1].Status(0)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per chunk, want 0", n)
	}
}
