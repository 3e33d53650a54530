package transporttest

import (
	"testing"

	"github.com/treerun/treerun/transport"
)

// testPlaced receives with a place for what comes: it is whole wherever it is, in
// order with what has none, and after CancelReceive the place is not touched.
func testPlaced(t *testing.T, open Open) {
	const slots, slotBytes = 4, 4096
	_, s, end := pair(t, open, slots, slotBytes)
	r, is := end.(transport.ReceivePoster)
	if !is {
		return // a transport that does not claim it
	}
	send := func(i, size int) {
		t.Helper()
		w, ok, err := reserve(s, size)
		if !ok || err != nil {
			t.Fatalf("payload %d: no free slot: %v, %v", i, ok, err)
		}
		fillWith(i)(w)
		h := header(i)
		s.Commit(&h)
	}
	receive := func(i, size int) {
		t.Helper()
		var h transport.Header
		var b []byte
		if !soon(func() (ok bool) {
			var err error
			if b, ok, err = r.TryPeek(&h); err != nil {
				t.Fatalf("payload %d: %v", i, err)
			}
			return ok
		}) {
			t.Fatalf("payload %d has not come", i)
		}
		if h != header(i) || len(b) != size {
			t.Fatalf("payload %d of %d bytes: %d bytes, %+v", i, size, len(b), h)
		}
		if err := checkFilled(b, i); err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
	var h transport.Header
	none := func() {
		t.Helper()
		if _, ok, err := r.TryPeek(&h); ok || err != nil {
			t.Fatalf("before anything was sent: %v, %v", ok, err)
		}
	}
	for i, size := range []int{1, 31, 1024, slotBytes, slotBytes - 1} {
		into := make([]byte, size)
		none()
		r.PostReceive(into, size)
		r.PostReceive(into, size) // again, as whoever polls does
		send(i, size)
		receive(i, size)
		send(i+1, size) // without a place, and with one of another length
		receive(i+1, size)
		r.PostReceive(make([]byte, size+1), size+1)
		send(i+2, size)
		receive(i+2, size)
	}
	// Three at once, and one after them; the second has another length than its place.
	into := make([]byte, 2*slotBytes+100)
	r.PostReceive(into, slotBytes)
	sizes := [...]int{slotBytes, slotBytes - 1, 100, slotBytes}
	for i, size := range sizes {
		send(20+i, size)
	}
	for i, size := range sizes {
		receive(20+i, size)
	}
	clear(into)
	none()
	r.PostReceive(into, slotBytes)
	r.CancelReceive()
	send(9, slotBytes)
	receive(9, slotBytes)
	for k, b := range into {
		if b != 0 {
			t.Fatalf("byte %d was written after CancelReceive", k)
		}
	}
}
