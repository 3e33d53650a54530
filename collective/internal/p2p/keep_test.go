package p2p

import (
	"math"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/internal/mismatch"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// pair returns the Queues of two ranks, which lend payloads from lendFrom bytes on. They close with the test.
func pair(t *testing.T, lendFrom int64) (first, second *Queue) {
	t.Helper()
	layout := transport.Layout{Size: 2, Slots: 2, SlotBytes: 256}
	eps := testutil.Links(t, 2, func(w *testutil.World) (transport.Endpoint, error) {
		return shm.Connect(t.Context(), shm.Config{Rank: w.Rank(), Layout: layout, Key: make([]byte, shm.KeyBytes),
			JobID: "test", Exchange: w.AllGather})
	})
	var all [2]*Queue
	for r := range all {
		t.Cleanup(func() { eps[r].Close() })
		reach := make([]bool, 2)
		reach[1-r], _ = eps[r].Reaches(1 - r)
		all[r] = New(eps[r], r, mismatch.New(eps[r], r, 2), 0, reach, lendFrom, math.MaxInt64, false)
	}
	return all[0], all[1]
}

// start begins message p on q, and polls.
func start(t *testing.T, q *Queue, p *Message, send bool) {
	t.Helper()
	err := q.Start(p, send)
	if err == nil {
		_, err = q.Poll()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func message(peer, tag, count int, buf []byte) *Message {
	return &Message{Peer: peer, Tag: int32(tag), DType: kernel.Int32, Buf: buf[:4*count]}
}

// TestTakenIn has a message come after the last poll of a rank and before it takes in arrived messages: a Receive that
// was posted for it is done then, has its length, and is no longer among the messages under way.
func TestTakenIn(t *testing.T) {
	from, to := pair(t, 8<<10)
	sent, buf := []byte("twelve bytes"), make([]byte, 20)
	in := message(0, 7, 5, buf)
	in.Fewer = true
	start(t, to, in, false)
	start(t, from, message(1, 7, 3, sent), true)
	took, err := to.TakeIn()
	if err != nil || !took || !in.Done() || in.Bytes() != 12 || !slices.Equal(buf[:12], sent) {
		t.Errorf("taken in: %v, done %v with %d bytes %v, %v", took, in.Done(), in.Bytes(), buf, err)
	}
	if _, err := to.Poll(); err != nil || !to.Idle() || !to.Settled() {
		t.Errorf("a Receive that is done is among the messages under way: %v", err)
	}
}

// TestTakesOfAMessage checks that a message counts once toward the limit of a rank's taken-in messages.
func TestTakesOfAMessage(t *testing.T) {
	from, to := pair(t, 1<<30)
	const count = 8 << 10 // int32
	if err := to.open(0, false); err != nil {
		t.Fatal(err)
	}
	to.peers[0].inbox.held = keptBytes - 4*count - keptEach // one more message fits
	p := message(1, 1, count, make([]byte, 4*count))
	start(t, from, p, true)
	for range 1000 {
		if _, err := to.TakeIn(); err != nil {
			t.Fatal(err)
		}
		if _, err := from.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	if a := to.peers[0].inbox.unexpected; len(a) != 1 || len(a[0].buf) != 4*count || !p.done {
		t.Errorf("%d messages came, sent: %v", len(a), p.done)
	}
}

// TestMemoryIsCounted: the bytes that a sender keeps are those of its messages until they are sent, and the bytes that
// a receiver has taken in are theirs until they are received.
func TestMemoryIsCounted(t *testing.T) {
	from, to := pair(t, 1<<30)
	const messages, count = 5, 1000
	const bytes = messages * (4*count + keptEach)
	for tag := range messages {
		p := message(1, tag, count, make([]byte, 4*count))
		if start(t, from, p, true); !from.Keep(p) {
			t.Fatalf("message %d is not kept", tag)
		}
	}
	if from.kept != bytes {
		t.Errorf("the sender counts %d bytes, want %d", from.kept, bytes)
	}
	for range 1000 {
		if _, err := to.TakeIn(); err != nil {
			t.Fatal(err)
		}
		if _, err := from.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	box := &to.peers[0].inbox
	if from.kept != 0 || box.held != bytes {
		t.Errorf("when all are sent, the sender counts %d bytes, the receiver %d of %d", from.kept, box.held, bytes)
	}
	for tag := range messages {
		start(t, to, message(0, tag, count, make([]byte, 4*count)), false)
	}
	if box.held != 0 {
		t.Errorf("when all are received, the receiver counts %d bytes", box.held)
	}
}

// TestUndelivered: a rank that closes learns of the first message that it has kept for a rank that has closed.
func TestUndelivered(t *testing.T) {
	from, to := pair(t, 1<<30)
	for tag := range 2 {
		p := message(1, tag, 1000, make([]byte, 4000))
		if start(t, from, p, true); !from.Keep(p) {
			t.Fatalf("message %d is not kept", tag)
		}
	}
	to.ep.Close()
	for i := 0; from.Keeps() && i < 1000; i++ {
		if _, err := from.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	if src, dst, id, found := from.Unreceived(); !found || src != 0 || dst != 1 || id.Tag != 0 || id.Count != 1000 {
		t.Errorf("found %v: %v from rank %d to rank %d", found, id, src, dst)
	}
}

// TestStartOfAReceive: it takes a small message that has come, also into a Receive that was posted before, and leaves a
// lent one to the next poll. There a rank lends before it reads what another has lent.
func TestStartOfAReceive(t *testing.T) {
	const large = EagerBytes/4 + 1 // elements
	a, b := pair(t, 8<<10)
	buf, got := make([]byte, 4*large), make([]byte, 4*large)
	first, second := message(0, 7, 3, got), message(0, 7, 3, got[12:])
	start(t, b, first, false)
	start(t, a, message(1, 7, 3, buf), true)
	start(t, a, message(1, 7, 3, buf), true)
	if err := b.Start(second, false); err != nil || !first.Done() || !second.Done() {
		t.Errorf("small messages that have come: done %v and %v, %v", first.Done(), second.Done(), err)
	}
	if !b.reach[0] {
		return // these ranks cannot read each other's memory
	}
	start(t, a, message(1, 8, large, buf), true)
	in := message(0, 8, large, got)
	if err := b.Start(in, false); err != nil || in.Done() || in.moved > 0 {
		t.Errorf("a lent message was read at the Start of its Receive: %d bytes, %v", in.moved, err)
	}
	back := make([]byte, 4*large)
	if err := b.Start(message(0, 9, large, got), true); err != nil {
		t.Fatal(err)
	}
	answer := message(1, 9, large, back)
	start(t, a, answer, false) // before b has polled
	if !answer.Done() {
		t.Error("what a rank lends cannot be read before it has read")
	}
	if _, err := b.Poll(); err != nil || !in.Done() {
		t.Errorf("the lent message after a poll: done %v, %v", in.Done(), err)
	}
}
