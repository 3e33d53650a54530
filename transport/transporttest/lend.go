package transporttest

import (
	"testing"

	"github.com/treerun/treerun/transport"
)

// testLendOwn lends memory that Alloc did not give out, in lengths around that
// of a slot and beyond: it is read whole, in parts and by header alone, in any
// order, and has come back when it was released, not before.
func testLendOwn(t *testing.T, open Open) {
	const slots, slotBytes = 2, 256
	all, s, end := pair(t, open, slots, slotBytes)
	if ok, why := all[0].Reaches(); !ok && why != "" {
		t.Fatalf("ranks of one process cannot read each other's memory: %s", why)
	} else if !ok {
		return // a transport that does not claim it
	}
	r := end.(transport.LentReceiver)
	for i, size := range []int{1, transport.MaxInline, transport.MaxInline + 1, slotBytes, slotBytes + 1, 100_000} {
		own := make([]byte, size)
		fillWith(i)(own)
		if _, ok, err := s.TryReserve(0); !ok || err != nil {
			t.Fatalf("no free slot: %v, %v", ok, err)
		}
		h := header(i)
		s.Lend(&h, own)
		all[0].Fence()
		s.Wake()
		if size > transport.MaxInline && s.Returned() {
			t.Fatalf("%d bytes have come back before they were read", size)
		}

		var got transport.Header
		if n, ok, err := r.TryHead(&got); n != size || !ok || err != nil || got != h {
			t.Fatalf("head of %d bytes: %d, %v, %v, %+v", size, n, ok, err, got)
		}
		tail := make([]byte, size/2)
		if ok, err := r.TryRead(tail, size-size/2); !ok || err != nil {
			t.Fatalf("second half of %d bytes: %v, %v", size, ok, err)
		}
		if string(tail) != string(own[size-size/2:]) {
			t.Fatalf("second half of %d bytes is another", size)
		}
		if ok, err := r.TryRead(make([]byte, size), 1); ok || err == nil {
			t.Fatalf("reading beyond %d bytes: %v, %v", size, ok, err)
		}
		into := make([]byte, size)
		for range 2 { // the second time nothing is read
			b, ok, err := r.TryPeekInto(&got, into)
			if !ok || err != nil || len(b) != size {
				t.Fatalf("%d bytes: %d, %v, %v", size, len(b), ok, err)
			}
			if err := checkFilled(b, i); err != nil {
				t.Fatal(err)
			}
			if size > transport.MaxInline && &b[0] != &into[0] {
				t.Fatalf("%d bytes were not read to where they belong", size)
			}
		}
		r.Release()
		if !s.Returned() {
			t.Fatalf("%d bytes have not come back", size)
		}
	}
	testLentToSlot(t, all[0], s, r, slotBytes)
}

// testLentToSlot peeks at lent memory without a place for it: it comes in the
// slot, or when it is longer its header only.
func testLentToSlot(t *testing.T, e transport.Endpoint, s transport.Sender, r transport.Receiver, slotBytes int) {
	for i, size := range []int{slotBytes, slotBytes + 1} {
		own := make([]byte, size)
		fillWith(i)(own)
		if _, ok, err := s.TryReserve(0); !ok || err != nil {
			t.Fatalf("no free slot: %v, %v", ok, err)
		}
		h := header(i)
		s.Lend(&h, own)
		e.Fence()
		var got transport.Header
		b, ok, err := r.TryPeek(&got)
		if size > slotBytes {
			if !ok || err != nil || b != nil || got != h {
				t.Fatalf("%d bytes for a slot of %d: %d came, %v, %v", size, slotBytes, len(b), ok, err)
			}
			continue
		}
		if !ok || err != nil {
			t.Fatalf("%d bytes in a slot of %d: %v, %v", size, slotBytes, ok, err)
		}
		if err := checkFilled(b, i); err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
}
