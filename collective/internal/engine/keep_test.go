package engine

import (
	"slices"
	"testing"

	"github.com/treerun/treerun/transport"
)

// pair returns the Engines of two ranks, which lend payloads from lendFrom bytes on. They close with the test.
func pair(t *testing.T, lendFrom int64) (first, second *Engine) {
	t.Helper()
	layout := transport.Layout{Size: 2, Slots: 2, SlotBytes: 256}
	eps, err := openAll(layout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, ep := range eps {
			ep.Close()
		}
	})
	return New(eps[0], 0, &layout, 0, false, lendFrom), New(eps[1], 1, &layout, 0, false, lendFrom)
}

// TestTakenIn has a message come after the last poll of a rank and before it takes in arrived messages: a Receive that
// was posted for it is done then, has its length, and is no longer among the messages under way.
func TestTakenIn(t *testing.T) {
	from, to := pair(t, 8<<10)
	sent, buf := numbers(1, 3), make([]byte, 20)
	in := message(0, 7, 5, buf)
	in.Fewer = true
	if err := to.StartRecv(in); err != nil {
		t.Fatal(err)
	}
	if err := from.StartSend(message(1, 7, 3, sent)); err != nil {
		t.Fatal(err)
	}
	took, err := to.takeIn()
	if err != nil || !took || !in.Done() || in.Bytes() != 12 || !slices.Equal(buf[:12], sent) {
		t.Errorf("taken in: %v, done %v with %d bytes %v, %v", took, in.Done(), in.Bytes(), buf, err)
	}
	if to.messages.first != nil || to.messages.last != nil {
		t.Errorf("a Receive that is done is among the messages under way")
	}
}

// TestTakesOfAMessage checks that a message counts once toward the limit of a rank's taken-in messages.
func TestTakesOfAMessage(t *testing.T) {
	from, to := pair(t, 1<<30)
	const count = 8 << 10 // int32
	if err := to.openMessages(0, false); err != nil {
		t.Fatal(err)
	}
	to.messages.inbox[0].held = keptBytes - 4*count - keptEach // one more message fits
	p := message(1, 1, count, numbers(1, count))
	if err := from.StartSend(p); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err := to.takeIn(); err != nil {
			t.Fatal(err)
		}
		if err := from.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	if a := to.messages.inbox[0].unexpected; len(a) != 1 || len(a[0].buf) != 4*count || !p.done {
		t.Errorf("%d messages came, sent: %v", len(a), p.done)
	}
}
