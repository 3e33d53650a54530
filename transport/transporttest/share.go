package transporttest

import (
	"testing"

	"github.com/treerun/treerun/transport"
)

// testShare sends one payload to two ranks, written once: each reads all of it,
// and the slot that holds it is not used again before both have released it.
func testShare(t *testing.T, open Open) {
	const slots = 2
	for _, size := range []int{0, 8, transport.MaxInline, transport.MaxInline + 1, 256} {
		all := opened(t, open, transport.Layout{Size: 3, Slots: slots, SlotBytes: 256,
			Links: []transport.Link{{Src: 0, Dst: 1}, {Src: 0, Dst: 2}}})
		lender, other := mustSender(t, all[0], 0, 1), mustSender(t, all[0], 0, 2)
		receivers := []transport.Receiver{mustReceiver(t, all[1], 0, 0), mustReceiver(t, all[2], 0, 0)}

		send := func(i int) bool {
			w, ok, err := lender.TryReserve(size)
			if err != nil {
				t.Fatal(err)
			}
			_, free, err := other.TryReserve(0)
			if err != nil {
				t.Fatal(err)
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
		receive := func(who, i int) {
			t.Helper()
			var h transport.Header
			b, ok, err := peek(receivers[who], &h)
			if !ok || err != nil || h != header(i) || len(b) != size {
				t.Fatalf("payload %d of %d bytes at receiver %d: %d bytes, %+v, %v, %v", i, size, who, len(b), h, ok, err)
			}
			if err := checkFilled(b, i); err != nil {
				t.Fatal(err)
			}
			receivers[who].Release()
		}
		for i := range 5 * slots { // full, then one receiver ahead of the other
			if i >= slots {
				if send(i) {
					t.Fatalf("payload %d of %d bytes was sent although both receivers hold %d", i, size, slots)
				}
				receive(0, i-slots)
				if send(i) {
					t.Fatalf("payload %d of %d bytes was sent although receiver 1 holds %d", i, size, slots)
				}
				receive(1, i-slots)
			}
			if !soon(func() bool { return send(i) }) {
				t.Fatalf("payload %d of %d bytes: no free slot", i, size)
			}
		}
		receive(1, 4*slots)
		receive(0, 4*slots)
	}
}
