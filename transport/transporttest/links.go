package transporttest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/treerun/treerun/transport"
)

// testOrder sends many chunks through few slots: each arrives once, in order,
// with its own header and payload, over many laps.
func testOrder(t *testing.T, open Open) {
	for _, slots := range []int{2, 4, 16} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			all, s, r := pair(t, open, slots, 128)
			const chunks = 5000
			together(t,
				func() error { return sendMany(all[0], s, chunks, 128) },
				func() error { return receiveMany(all[1], r, chunks, 128) })
		})
	}
}

// sizeOf varies the payload from 0 to most bytes, with inline ones in between.
func sizeOf(i, most int) int { return (i * 37) % (most + 1) }

func sendMany(e transport.Endpoint, s transport.Sender, chunks, most int) error {
	for i := range chunks {
		h := header(i)
		if err := Send(e, s, &h, sizeOf(i, most), fillWith(i)); err != nil {
			return fmt.Errorf("sending chunk %d: %w", i, err)
		}
	}
	return nil
}

func receiveMany(e transport.Endpoint, r transport.Receiver, chunks, most int) error {
	for i := range chunks {
		if err := Receive(e, r, func(h transport.Header, b []byte) error { return checkChunk(h, b, i, most) }); err != nil {
			return fmt.Errorf("receiving chunk %d: %w", i, err)
		}
	}
	return nil
}

func checkChunk(h transport.Header, b []byte, i, most int) error {
	if want := header(i); h != want {
		return fmt.Errorf("header %+v, want %+v", h, want)
	}
	if len(b) != sizeOf(i, most) {
		return fmt.Errorf("%d bytes, want %d", len(b), sizeOf(i, most))
	}
	return checkFilled(b, i)
}

// testSizes sends every size around the inline limit, the cache line and the
// slot size, and checks that a window's capacity ends with it.
func testSizes(t *testing.T, open Open) {
	const slot = 4096
	_, s, r := pair(t, open, 4, slot)
	sizes := []int{0, 1, 7, 8, transport.MaxInline - 1, transport.MaxInline, transport.MaxInline + 1, 63, 64, 65, slot - 1,
		slot}
	for i, n := range sizes {
		w, ok, err := reserve(s, n)
		if !ok || err != nil || len(w) != n || cap(w) != n {
			t.Fatalf("TryReserve(%d) = %d bytes of %d, %v, %v", n, len(w), cap(w), ok, err)
		}
		fillWith(i)(w)
		h := header(i)
		s.Commit(&h)
		var got transport.Header
		b, ok, err := peek(r, &got)
		if !ok || err != nil || len(b) != n || cap(b) != n || got != h {
			t.Fatalf("TryPeek after %d bytes = %d bytes of %d, %+v, %v, %v", n, len(b), cap(b), got, ok, err)
		}
		if err := checkFilled(b, i); err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
}

// testFullEmpty fills and drains a link: exactly Slots chunks fit, one comes
// back per Release.
func testFullEmpty(t *testing.T, open Open) {
	const slots = 4
	_, s, r := pair(t, open, slots, 64)
	var h transport.Header
	peek := func(want bool) {
		t.Helper()
		_, ok, err := r.TryPeek(&h)
		if want {
			_, ok, err = peek(r, &h)
		}
		if ok != want || err != nil {
			t.Fatalf("TryPeek = %v, %v, want %v", ok, err, want)
		}
	}
	reserve := func(want bool) {
		t.Helper()
		_, ok, err := s.TryReserve(64)
		if want {
			_, ok, err = reserve(s, 64)
		}
		if ok != want || err != nil {
			t.Fatalf("TryReserve = %v, %v, want %v", ok, err, want)
		}
	}
	for range 3 { // laps
		peek(false)
		for range slots {
			reserve(true)
			s.Commit(&h)
		}
		reserve(false)
		peek(true)
		reserve(false) // looking frees nothing
		r.Release()
		reserve(true)
		s.Commit(&h)
		reserve(false)
		for range slots {
			peek(true)
			r.Release()
		}
	}
}

// testStable checks that repeated calls give the same window with the same
// contents, and that what is not committed is not seen.
func testStable(t *testing.T, open Open) {
	for _, n := range []int{8, 200} {
		_, s, r := pair(t, open, 2, 256)
		w, _, _ := s.TryReserve(n)
		fillWith(1)(w)
		again, ok, err := s.TryReserve(n)
		if !ok || err != nil || &again[0] != &w[0] {
			t.Fatalf("second TryReserve gave another window (%v, %v)", ok, err)
		}
		var h transport.Header
		if _, ok, _ := r.TryPeek(&h); ok {
			t.Fatal("TryPeek sees a chunk that was not committed")
		}
		sent := header(1)
		s.Commit(&sent)
		b, _, _ := peek(r, &h)
		w2, _, _ := s.TryReserve(n) // the other slot
		fillWith(2)(w2)
		second := header(2)
		s.Commit(&second)
		b2, ok, err := r.TryPeek(&h)
		if !ok || err != nil || &b2[0] != &b[0] || h != sent {
			t.Fatalf("second TryPeek gave another window or header (%v, %v)", ok, err)
		}
		if err := checkFilled(b, 1); err != nil {
			t.Errorf("window changed before Release: %v", err)
		}
		r.Release()
		b, _, _ = peek(r, &h)
		if err := checkFilled(b, 2); err != nil || h != second {
			t.Errorf("second chunk: %v, header %+v", err, h)
		}
	}
}

// testSeparate uses a layout in which lanes and directions could be mixed up.
func testSeparate(t *testing.T, open Open) {
	const size, lanes = 3, 2
	l := transport.Layout{Size: size, Slots: 2, SlotBytes: 64}
	for lane := range lanes {
		for a := range size {
			for b := range size {
				if a != b {
					l.Links = append(l.Links, transport.Link{Lane: lane, Src: a, Dst: b})
				}
			}
		}
	}
	all := opened(t, open, l)
	id := func(k transport.Link) int { return k.Lane*100 + k.Src*10 + k.Dst }
	for _, k := range l.Links {
		for _, n := range []int{20, 60} {
			s := mustSender(t, all[k.Src], k.Lane, k.Dst)
			w, ok, err := s.TryReserve(n)
			if !ok || err != nil {
				t.Fatalf("%v: %v %v", k, ok, err)
			}
			fillWith(id(k) + n)(w)
			h := header(id(k))
			s.Commit(&h)
		}
	}
	for _, k := range l.Links {
		for _, n := range []int{20, 60} {
			r := mustReceiver(t, all[k.Dst], k.Lane, k.Src)
			var h transport.Header
			b, ok, err := peek(r, &h)
			if !ok || err != nil || h != header(id(k)) || len(b) != n {
				t.Fatalf("%v: %v %v %+v", k, ok, err, h)
			}
			if err := checkFilled(b, id(k)+n); err != nil {
				t.Fatalf("%v: %v", k, err)
			}
			r.Release()
		}
	}
}

func testNoLink(t *testing.T, open Open) {
	all := opened(t, open, transport.Layout{Size: 2, Slots: 2, SlotBytes: 64,
		Links: []transport.Link{{Lane: 1, Src: 0, Dst: 1}}})
	for _, k := range []struct{ rank, lane, peer int }{{0, 0, 1}, {0, 1, 0}, {0, 1, 2}, {0, 1, -1}, {1, 1, 0}} {
		if _, err := all[k.rank].Sender(k.lane, k.peer); !errors.Is(err, transport.ErrNoLink) {
			t.Errorf("Sender(%d, %d) of rank %d: %v, want ErrNoLink", k.lane, k.peer, k.rank, err)
		}
	}
	for _, k := range []struct{ rank, lane, peer int }{{1, 0, 0}, {1, 1, 1}, {1, 1, 2}, {0, 1, 1}} {
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

// testTooLarge: a payload that no slot holds is an error and harms nothing.
func testTooLarge(t *testing.T, open Open) {
	_, s, r := pair(t, open, 2, 128)
	for _, n := range []int{129, 1 << 40, -1} {
		if _, ok, err := s.TryReserve(n); ok || err == nil {
			t.Errorf("TryReserve(%d) = %v, %v, want an error", n, ok, err)
		}
	}
	w, ok, err := s.TryReserve(128)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	fillWith(3)(w)
	h := header(3)
	s.Commit(&h)
	b, ok, err := peek(r, &h)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := checkFilled(b, 3); err != nil {
		t.Error(err)
	}
}

// testRelay passes chunks around a ring of ranks, each reading its input window
// while it fills its output window, as collectives do.
func testRelay(t *testing.T, open Open) {
	const size, chunks = 5, 600
	l := transport.Layout{Size: size, Slots: 2, SlotBytes: 512}
	for r := range size {
		l.Links = append(l.Links, transport.Link{Src: r, Dst: (r + 1) % size})
	}
	all := opened(t, open, l)
	fs := make([]func() error, size)
	for r := range fs {
		e := all[r]
		in, out := mustReceiver(t, e, 0, (r+size-1)%size), mustSender(t, e, 0, (r+1)%size)
		fs[r] = func() error { return relay(e, in, out, chunks) }
	}
	fs[0] = func() error {
		in, out := mustReceiver(t, all[0], 0, size-1), mustSender(t, all[0], 0, 1)
		for i := range chunks {
			h := header(i)
			if err := Send(all[0], out, &h, sizeOf(i, 512), fillWith(i)); err != nil {
				return err
			}
			if err := Receive(all[0], in, func(h transport.Header,
				b []byte) error {
				return checkChunk(h, b, i, 512)
			}); err != nil {
				return err
			}
		}
		return nil
	}
	together(t, fs...)
}

func relay(e transport.Endpoint, in transport.Receiver, out transport.Sender, chunks int) error {
	for range chunks {
		err := Receive(e, in, func(h transport.Header, b []byte) error {
			return Send(e, out, &h, len(b), func(w []byte) { copy(w, b) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// testOrdersHeap: what a rank did before Commit has happened for the rank that
// peeks, and what that did before Release for the one that reserves the slot
// again. It matters under the race detector, which must know it.
func testOrdersHeap(t *testing.T, open Open) {
	const rounds = 100
	all, s, r := pair(t, open, 2, 64)
	var shared [2]int // plain memory, one for each slot
	together(t, func() error {
		for i := range rounds {
			err := Send(all[0], s, &transport.Header{}, 8, func([]byte) { shared[i%2]++ })
			if err != nil {
				return err
			}
		}
		return nil
	}, func() error {
		for i := range rounds {
			err := Receive(all[1], r, func(transport.Header, []byte) error {
				if shared[i%2]++; shared[i%2] != i/2*2+2 {
					return fmt.Errorf("round %d: count is %d", i, shared[i%2])
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// testAllocations: the path of a chunk allocates nothing.
func testAllocations(t *testing.T, open Open) {
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
