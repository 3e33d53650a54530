package transport_test

import (
	"bytes"
	"testing"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// testShare sends one payload to two ranks, written once: each reads all of it,
// and the slot that holds it is not used again before both have released it.
func testShare(t *testing.T, open opener) {
	const slots = 2
	for _, size := range []int{0, 8, transport.MaxInline, transport.MaxInline + 1, 256} {
		all := opened(t, open, transport.Layout{Size: 3, Slots: slots, SlotBytes: 256})
		lender, other := mustSender(t, all[0], 0, 1), mustSender(t, all[0], 0, 2)
		first, second := mustReceiver(t, all[1], 0, 0), mustReceiver(t, all[2], 0, 0)
		sent := func(i int) bool {
			w, ok, err := lender.TryReserve(size)
			_, free, err2 := other.TryReserve(0)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			if !ok || !free {
				return false
			}
			fillWith(i)(w)
			h := header(i)
			other.Share(&h, lender)
			lender.Commit(&h)
			return true
		}
		for i := range 5 * slots { // full, then one receiver ahead of the other
			if i >= slots {
				if sent(i) {
					t.Fatalf("payload %d of %d bytes was sent although both receivers hold %d", i, size, slots)
				}
				receive(t, first, i-slots, size)
				if sent(i) {
					t.Fatalf("payload %d of %d bytes was sent although receiver 1 holds %d", i, size, slots)
				}
				receive(t, second, i-slots, size)
			}
			if !soon(func() bool { return sent(i) }) {
				t.Fatalf("payload %d of %d bytes: no free slot", i, size)
			}
		}
		receive(t, second, 4*slots, size)
		receive(t, first, 4*slots, size)
	}
}

// testLendOwn lends memory that Alloc did not return, in lengths around that of a slot and beyond: it is read whole, in
// parts and by header alone, in any order, and is returned when it was released, not before. Without a place for it, it
// arrives in the slot, or only its header arrives if it is longer.
func testLendOwn(t *testing.T, open opener) {
	const slots, slotBytes = 2, 256
	all, s, end := pair(t, open, slots, slotBytes)
	if ok, why := all[0].Reaches(1); !ok && why != "" {
		t.Fatalf("ranks of one process cannot read each other's memory: %s", why)
	} else if !ok {
		return // a transport that does not claim it
	}
	r := end.(transport.LentReceiver)
	lend := func(i, size int) []byte {
		own := make([]byte, size)
		fillWith(i)(own)
		reserve(t, s, 0)
		h := header(i)
		s.Lend(&h, own, false)
		all[0].Fence()
		s.Wake()
		return own
	}
	var h call.Header
	for i, size := range []int{1, transport.MaxInline, transport.MaxInline + 1, slotBytes, slotBytes + 1, 100_000} {
		own := lend(i, size)
		if size > transport.MaxInline && s.Returned() {
			t.Fatalf("%d bytes have come back before they were read", size)
		}
		if n, ok, err := r.TryHead(&h); n != size || !ok || err != nil || h != header(i) {
			t.Fatalf("head of %d bytes: %d, %v, %v, %+v", size, n, ok, err, h)
		}
		tail := make([]byte, size/2)
		if ok, err := r.TryRead(tail, size-size/2); !ok || err != nil || !bytes.Equal(tail, own[size-size/2:]) {
			t.Fatalf("second half of %d bytes: %v, %v", size, ok, err)
		}
		if ok, err := r.TryRead(make([]byte, size), 1); ok || err == nil {
			t.Fatalf("reading beyond %d bytes: %v, %v", size, ok, err)
		}
		into := make([]byte, size)
		for range 2 { // the second call copies nothing
			b, ok, err := r.TryPeekInto(&h, into)
			if !ok || err != nil {
				t.Fatalf("%d bytes: %v, %v", size, ok, err)
			}
			if err := checkChunk(h, b, i, size); err != nil {
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
	lend(0, slotBytes)
	receive(t, r, 0, slotBytes)
	lend(1, slotBytes+1)
	if b, ok, err := r.TryPeek(&h); !ok || err != nil || b != nil || h != header(1) {
		t.Fatalf("%d bytes for a slot of %d: %d came, %v, %v", slotBytes+1, slotBytes, len(b), ok, err)
	}
}

// testHold fills a link with small payloads, and has every number of them released: few come back late. Whatever comes
// back late, there is room for as many larger payloads as the link has slots.
func testHold(t *testing.T, open opener) {
	const slots, slotBytes = 8, 256
	for read := 0; ; read++ {
		_, s, end := pair(t, open, slots, slotBytes)
		r, is := end.(transport.LentReceiver)
		if !is {
			return // a transport that does not claim it
		}
		sent, received := 0, 0
		fill := func(size int) (n int) {
			for ; ; n++ {
				b, ok, err := s.TryReserve(size)
				if err != nil || !ok {
					return n
				}
				fillWith(sent)(b)
				h := header(sent)
				s.Commit(&h)
				sent++
			}
		}
		take := func(n, size int) {
			t.Helper()
			for range n {
				receive(t, r, received, size)
				received++
			}
		}
		all := fill(8)
		if read > all {
			return
		}
		take(read, 8)
		if room := fill(8); room > read || read-room >= slots/2 {
			t.Errorf("room for %d after %d of %d small payloads were read", room, read, all)
		}
		take(sent-received, 8)
		if n := fill(slotBytes); n != slots {
			t.Errorf("room for %d large payloads in an empty link of %d slots, %d small ones before", n, slots, received)
		}
		take(slots, slotBytes)
	}
}

// testHoldLent releases a small payload and then one that was lent from memory of Alloc: that comes back at once, as
// its sender waits for it.
func testHoldLent(t *testing.T, open opener) {
	l := testutil.Pair(8, 256)
	l.HeapBytes = 4 << 20
	all := opened(t, open, l)
	s := mustSender(t, all[0], 0, 1)
	r, is := mustReceiver(t, all[1], 0, 0).(transport.LentReceiver)
	if !is {
		return // a transport that does not claim it
	}
	block, err := all[0].Alloc(5000)
	if err != nil || block == nil {
		return // likewise
	}
	fillWith(3)(block)
	send(t, s, 0, 8)
	receive(t, r, 0, 8)
	reserve(t, s, 0)
	h := header(1)
	s.Lend(&h, block, false)
	all[0].Fence()
	s.Wake()
	into := make([]byte, len(block))
	b, ok, err := r.TryPeekInto(&h, into)
	if !ok || err != nil || !bytes.Equal(b, block) {
		t.Fatalf("a lent payload: %d bytes, %v, %v", len(b), ok, err)
	}
	if r.Release(); !s.Returned() {
		t.Error("a lent payload that was released has not come back")
	}
}

// testPlaced receives with a place for payloads: each payload is complete wherever it is, in order with payloads
// without a place, and after CancelReceive the place is not touched.
func testPlaced(t *testing.T, open opener) {
	const slots, slotBytes = 4, 4096
	_, s, end := pair(t, open, slots, slotBytes)
	r, is := end.(transport.ReceivePoster)
	if !is {
		return // a transport that does not claim it
	}
	pass := func(i, size int) {
		t.Helper()
		send(t, s, i, size)
		receive(t, r, i, size)
	}
	for i, size := range []int{1, 31, 1024, slotBytes, slotBytes - 1} {
		into := make([]byte, size)
		nothing(t, r)
		r.PostReceive(into, size)
		r.PostReceive(into, size) // again, as in a polling loop
		pass(i, size)
		pass(i+1, size) // without a place, and with one of another length
		r.PostReceive(make([]byte, size+1), size+1)
		pass(i+2, size)
	}
	// Three at once, and one after them; the second has another length than its place.
	into := make([]byte, 2*slotBytes+100)
	r.PostReceive(into, slotBytes)
	sizes := [...]int{slotBytes, slotBytes - 1, 100, slotBytes}
	for i, size := range sizes {
		send(t, s, 20+i, size)
	}
	for i, size := range sizes {
		receive(t, r, 20+i, size)
	}
	clear(into)
	nothing(t, r)
	r.PostReceive(into, slotBytes)
	r.CancelReceive()
	pass(9, slotBytes)
	if !bytes.Equal(into, make([]byte, len(into))) {
		t.Fatal("memory was written after CancelReceive")
	}
}

// testView makes every rank of a set, which need not be all ranks, allocate a block: each rank writes its number into
// every block and then finds all numbers in its own. A view outside the memory of a rank is an error.
func testView(t *testing.T, open opener) {
	l := testutil.Pair(2, 64)
	l.HeapBytes = 4 << 20
	all := opened(t, open, l)
	blocks, places := make([][]byte, len(all)), make([]int, len(all))
	for r, e := range all {
		_, err := e.Alloc(100) // so that not all blocks are at 0
		if err == nil {
			blocks[r], err = e.Alloc(5000)
		}
		if err != nil {
			t.Fatal(err)
		}
		var ok bool
		if places[r], ok = e.Offset(blocks[r]); !ok {
			t.Fatalf("rank %d: its own block has no place", r)
		}
		if _, ok := e.Offset(make([]byte, 8)); ok {
			t.Errorf("rank %d: memory of the test has a place", r)
		}
	}
	for q, e := range all {
		for r := range all {
			b, err := e.View(r, places[r], len(blocks[r]))
			if err != nil || len(b) != len(blocks[r]) {
				t.Fatalf("rank %d looks at rank %d: %d bytes, %v", q, r, len(b), err)
			}
			b[q], b[len(b)-1-q] = byte(q+1), byte(q+1)
		}
		for _, bad := range [][3]int{{-1, 0, 8}, {len(all), 0, 8}, {0, -1, 8}, {0, 0, l.HeapBytes + 1}, {0, l.HeapBytes, 1},
			{0, 8, -1}} {
			if b, err := e.View(bad[0], bad[1], bad[2]); err == nil {
				t.Errorf("rank %d: %d bytes at %d of rank %d: %d bytes", q, bad[2], bad[1], bad[0], len(b))
			}
		}
	}
	for r, b := range blocks {
		for q := range all {
			if b[q] != byte(q+1) || b[len(b)-1-q] != byte(q+1) {
				t.Errorf("rank %d does not see the data of rank %d", r, q)
			}
		}
	}
}
