package tcp

import (
	"bytes"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
)

// A chunk whose beginning has arrived in the caller's memory continues in a slot after CancelReceive, complete, and the
// caller's memory is left alone.
func TestCancelReceiveInTheMiddle(t *testing.T) {
	all := mesh(t, testutil.Pair(4, 4096), nil)
	defer func() {
		for _, e := range all {
			_ = e.Close()
		}
	}()
	got, err := all[1].Receiver(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := got.(*receiver)
	const size, came = 1000, 300
	payload := make([]byte, size)
	for i := range payload {
		payload[i] = byte(1 + i%250)
	}
	into := make([]byte, size)
	var h call.Header
	r.PostReceive(into, size)
	if _, ok, err := r.TryPeek(&h); ok || err != nil {
		t.Fatal(ok, err)
	}
	c := r.peer.conn
	c.rmu.Lock()
	defer c.rmu.Unlock() // excludes the pump
	in := &c.in
	in.r, in.w = 0, copy(in.ahead, payload[:came])
	if err := in.chunk(r.peer, &base{kind: kindData, more: callBytes + size + tailBytes, link: uint32(r.link.Lane)},
		make([]byte, callBytes)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(into[:came], payload[:came]) || len(in.rest) != size-came || &in.rest[0] != &into[came] {
		t.Fatalf("the chunk does not come where it was placed: %d bytes are left", len(in.rest))
	}
	c.rmu.Unlock()
	r.CancelReceive()
	c.rmu.Lock()
	if n := copy(in.rest, payload[came:]); n != size-came {
		t.Fatalf("%d bytes are to come, want %d", n, size-came)
	}
	if !bytes.Equal(r.slots[0].window(), payload) {
		t.Error("the chunk is another after it was moved to a slot")
	}
	if !bytes.Equal(into[came:], make([]byte, size-came)) {
		t.Error("the caller's memory was written after CancelReceive")
	}
	in.rest, in.into, in.slot, in.r, in.w = nil, nil, nil, 0, 0
}

// All chunks that were placed at once arrive in their places, and the last of them ends the placement.
func TestPlaceSeveral(t *testing.T) {
	all := mesh(t, testutil.Pair(4, 4096), nil)
	defer func() {
		for _, e := range all {
			_ = e.Close()
		}
	}()
	s, err := all[0].Sender(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := all[1].Receiver(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := got.(*receiver)
	const chunk = 3000
	into, want := make([]byte, 2*chunk+500), make([]byte, 2*chunk+500)
	for i := range want {
		want[i] = byte(1 + i%251)
	}
	r.PostReceive(into, chunk)
	var h call.Header
	for from := 0; from < len(want); from += chunk {
		part := want[from:min(from+chunk, len(want))]
		w, ok, err := s.TryReserve(len(part))
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		copy(w, part)
		s.Commit(&h)
	}
	for from := 0; from < len(want); from += chunk {
		b, ok, err := r.TryPeek(&h)
		for end := time.Now().Add(time.Minute); !ok && err == nil && time.Now().Before(end); {
			b, ok, err = r.TryPeek(&h)
		}
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if &b[0] != &into[from] {
			t.Fatalf("the chunk at byte %d does not lie where it belongs", from)
		}
		r.Release()
	}
	if !bytes.Equal(into, want) {
		t.Error("the chunks are others than were sent")
	}
	if r.place.into != nil {
		t.Error("there are places left after the last chunk")
	}
}
