package segment

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// together is a Reach between two ends in one process, which lets the sender act in the middle of a read or write.
type together struct {
	places           [][]byte // that have been lent, or offered
	reading, writing func()
	read, written    int  // bytes
	ended            bool // the sender's process
}

func (r *together) Address(window []byte) uint64 {
	r.places = append(r.places, window)
	return uint64(len(r.places)) << 32
}

func (r *together) Read(_ int, address uint64, b []byte) error {
	if r.reading != nil {
		r.reading()
	}
	r.read += copy(b, r.places[address>>32-1][uint32(address):])
	return nil
}

func (r *together) Write(_ int, address uint64, b []byte) error {
	if r.writing != nil {
		r.writing()
	}
	r.written += copy(r.places[address>>32-1][uint32(address):], b)
	return nil
}

func (r *together) Ended(int) bool { return r.ended }

// helping makes both ends of a link over r.
func helping(t *testing.T, r Reach) (*sender, *receiver) {
	m, err := NewMap(transport.Layout{Size: 2, Slots: 2, SlotBytes: 64})
	if err != nil {
		t.Fatal(err)
	}
	b := Heap(m.Bytes)
	var ends [2]*Endpoint
	p := newParts()
	for i := range ends {
		ends[i] = New(m, b, i, func(int) {}, p)
		ends[i].SetReach(r, "")
	}
	s, err := ends[0].Sender(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	in, err := ends[1].Receiver(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*sender), in.(*receiver)
}

// pass lends a payload of n bytes, receives it, and returns both the sent and the received bytes.
func pass(t *testing.T, s *sender, r *receiver, n int) (sent, came []byte) {
	sent, came = make([]byte, n), make([]byte, n)
	for i := range sent {
		sent[i] = byte(i*7 + i>>8 + n)
	}
	h := call.Header{Count: uint64(n)}
	if _, ok, err := s.TryReserve(0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	s.Lend(&h, sent, true)
	if ok, err := s.Help(true); ok || err != nil {
		t.Fatalf("helped before there was an offer: %v, %v", ok, err)
	}
	for range 3 {
		var got call.Header
		if b, ok, err := r.TryPeekInto(&got, came); err != nil {
			t.Fatal(err)
		} else if ok {
			if &b[0] != &came[0] {
				t.Fatalf("%d bytes came elsewhere", n)
			}
			r.Release()
			return sent, came
		}
	}
	t.Fatalf("%d bytes did not come", n)
	return nil, nil
}

// TestHelp checks that the sender brings one half while the receiver reads the other, again and again on the same
// slots, and that every byte is copied once.
func TestHelp(t *testing.T) {
	var s *sender
	c := &together{}
	c.reading = func() {
		before := c.written
		if ok, err := s.Help(true); err != nil || ok != (before == 0) {
			t.Fatalf("helped: %v, %v, after %d bytes", ok, err, before)
		}
	}
	var r *receiver
	s, r = helping(t, c)
	for _, n := range []int{helpFrom, helpFrom + 1, 100_003, 1 << 20, helpFrom} {
		c.read, c.written = 0, 0
		sent, came := pass(t, s, r, n)
		if !bytes.Equal(sent, came) || c.read+c.written != n || c.written == 0 || c.read == 0 {
			t.Fatalf("of %d bytes %d were read and %d written, all there: %v", n, c.read, c.written, bytes.Equal(sent, came))
		}
		if !s.Returned() {
			t.Fatal("not returned")
		}
	}
}

// heldUp lends a payload, makes the receiver offer into for it, and the sender begin its half, at which it stays until
// goOn is closed. Helped is closed when it has ended.
func heldUp(t *testing.T, c *together, s *sender, r *receiver, into []byte) (sent []byte, goOn, helped chan bool) {
	t.Helper()
	begun := make(chan bool)
	goOn, helped = make(chan bool), make(chan bool)
	c.writing = func() { begun <- true; <-goOn }
	c.reading = func() {
		c.reading = nil
		go func() {
			defer close(helped)
			if ok, err := s.Help(true); !ok || err != nil {
				t.Errorf("helped: %v, %v", ok, err)
			}
		}()
		<-begun
	}
	sent = bytes.Repeat([]byte("0123456789abcdef"), len(into)/16)
	if _, ok, err := s.TryReserve(0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	s.Lend(&call.Header{}, sent, true)
	if _, ok, err := r.TryPeekInto(&call.Header{}, into); ok || err != nil {
		t.Fatalf("there before the sender was done: %v, %v", ok, err)
	}
	return sent, goOn, helped
}

// TestHelpTakesLong checks that the payload is not there while the sender copies its half. Afterwards it is in the
// place that was offered first, and complete, whatever place the receiver names later.
func TestHelpTakesLong(t *testing.T) {
	c := &together{}
	s, r := helping(t, c)
	first, second := make([]byte, helpFrom), make([]byte, helpFrom)
	sent, goOn, helped := heldUp(t, c, s, r, first)
	if _, ok, err := r.TryPeekInto(&call.Header{}, second); ok || err != nil {
		t.Errorf("there before the sender was done: %v, %v", ok, err)
	}
	close(goOn)
	<-helped
	for range 2 {
		b, ok, err := r.TryPeekInto(&call.Header{}, second)
		if !ok || err != nil || &b[0] != &first[0] || !bytes.Equal(b, sent) {
			t.Errorf("%v, %v, all there: %v", ok, err, bytes.Equal(b, sent))
		}
	}
}

// TestNoHelp checks that the sender does not help with small payloads, payloads that go into a slot, and payloads that
// were returned.
func TestNoHelp(t *testing.T) {
	c := &together{}
	s, r := helping(t, c)
	c.reading = func() {
		if ok, err := s.Help(true); ok || err != nil {
			t.Errorf("helped: %v, %v", ok, err)
		}
	}
	for _, n := range []int{transport.MaxInline + 1, 64, 65, helpFrom - 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if sent, came := pass(t, s, r, n); !bytes.Equal(sent, came) {
				t.Error("other bytes came")
			}
		})
	}
	c.reading = nil
	_, _ = pass(t, s, r, helpFrom)
	if ok, err := s.Help(true); ok || err != nil || c.written != 0 {
		t.Errorf("helped with a returned payload: %v, %v", ok, err)
	}
}

// TestHelpLeavesOthersAlone checks that Help ignores payloads that lie in the lines of their slots, before and between
// those that are lent, whatever their bytes are.
func TestHelpLeavesOthersAlone(t *testing.T) {
	c := &together{}
	s, r := helping(t, c)
	offer := bytes.Repeat([]byte{0, 0, 0, 0x80}, transport.MaxInline/4) // -0.0, or an offer of which nothing is claimed
	for round := range 3 {
		_, _ = pass(t, s, r, helpFrom) // so that every slot has been lent before
		w, ok, err := s.TryReserve(len(offer))
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		copy(w, offer)
		s.Commit(&call.Header{})
		if _, ok, err := s.TryReserve(0); !ok || err != nil {
			t.Fatal(ok, err)
		}
		s.Lend(&call.Header{}, make([]byte, helpFrom), true)
		if ok, err := s.Help(true); ok || err != nil {
			t.Fatalf("round %d: helped: %v, %v", round, ok, err)
		}
		var h call.Header
		if b, ok, err := r.TryPeek(&h); !ok || err != nil || !bytes.Equal(b, offer) {
			t.Fatalf("round %d: %x came, %v, %v, want %x", round, b, ok, err, offer)
		}
		r.Release()
		if _, ok, err := r.TryPeekInto(&h, make([]byte, helpFrom)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		r.Release()
		if !s.Returned() {
			t.Fatal("not returned")
		}
	}
}

// vanished is a Reach of a process that has ended.
type vanished struct{ together }

func (*vanished) Read(int, uint64, []byte) error { return ErrVanished }

// TestReadOfVanished checks that a receiver offers no memory to a process that has ended.
func TestReadOfVanished(t *testing.T) {
	s, r := helping(t, &vanished{})
	if _, ok, err := s.TryReserve(0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	s.Lend(&call.Header{}, make([]byte, 1000), false)
	var h call.Header
	if b, ok, err := r.TryPeekInto(&h, make([]byte, 1000)); b != nil || ok || err != nil || r.offered {
		t.Errorf("%d bytes, %v, %v, offered %v", len(b), ok, err, r.offered)
	}
}

// TestLendUnreadable checks that memory that the receiver cannot read is not lent: its offset would be that of other
// memory.
func TestLendUnreadable(t *testing.T) {
	s, _ := helping(t, nil)
	if _, ok, err := s.TryReserve(0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer func() {
		if p := recover(); p != "segment: Lend of memory that the receiver cannot read" {
			t.Errorf("panic %v", p)
		}
	}()
	s.Lend(&call.Header{}, make([]byte, 1000), false)
}

// TestLost checks that payloads that a closing receiver has not read are returned, and that the link reports an error.
func TestLost(t *testing.T) {
	for _, read := range []bool{false, true} {
		s, r := helping(t, &together{})
		h := call.Header{}
		if _, ok, err := s.TryReserve(0); !ok || err != nil {
			t.Fatal(ok, err)
		}
		s.Lend(&h, make([]byte, 1000), true)
		if read {
			if _, ok, err := r.TryPeekInto(&h, make([]byte, 1000)); !ok || err != nil {
				t.Fatal(ok, err)
			}
			r.Release()
		}
		r.e.Leave()
		_, ok, err := s.TryReserve(0)
		if !s.Returned() || !ok || err != nil {
			t.Fatalf("returned: %v, slot: %v, %v", s.Returned(), ok, err)
		}
		if _, ok, err := s.TryReserve(0); ok != read || errors.Is(err, transport.ErrPeerClosed) == read {
			t.Errorf("read: %v, TryReserve = %v, %v", read, ok, err)
		}
	}
}

// TestCancelReceive checks that the sender does not write to memory that a failed or closed receiver has withdrawn: the
// receiver waits for a piece that the sender has begun, and the sender begins no other. Then the payload may be
// received again.
func TestCancelReceive(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		c := &together{}
		s, r := helping(t, c)
		came := make([]byte, helpFrom)
		sent, goOn, helped := heldUp(t, c, s, r, came)
		time.AfterFunc(20*time.Millisecond, func() { close(goOn) })
		if leaves {
			r.e.Leave()
		} else {
			r.CancelReceive()
		}
		select {
		case <-goOn:
		default:
			t.Error("the sender was not waited for")
		}
		clear(came) // the caller's again
		<-helped
		if ok, err := s.Help(true); ok || err != nil || !bytes.Equal(came, make([]byte, helpFrom)) {
			t.Errorf("written to after CancelReceive: %v, %v", ok, err)
		}
		b, ok, err := r.TryPeekInto(&call.Header{}, came)
		if leaves != errors.Is(err, transport.ErrClosed) || ok == leaves || ok && !bytes.Equal(b, sent) {
			t.Errorf("closed: %v, received again: %v, %v", leaves, ok, err)
		}
	}
}

// TestNothingAfterAbort checks that neither end begins a piece once there is a fault.
func TestNothingAfterAbort(t *testing.T) {
	c := &together{}
	s, r := helping(t, c)
	came := make([]byte, helpFrom)
	c.reading = func() {
		s.e.Abort(transport.Fault{Rank: 0, Text: "the reason"})
		if ok, err := s.Help(true); ok || err != nil {
			t.Errorf("helped after a fault: %v, %v", ok, err)
		}
	}
	if _, ok, err := s.TryReserve(0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	s.Lend(&call.Header{}, make([]byte, helpFrom), true)
	for range 3 {
		if _, ok, err := r.TryPeekInto(&call.Header{}, came); ok || err != nil {
			t.Errorf("received after a fault: %v, %v", ok, err)
		}
	}
	r.CancelReceive()
	if c.written != 0 {
		t.Errorf("%d bytes were written after a fault", c.written)
	}
}

// TestAbandoned checks that memory to which a stopped sender may still write when its receiver closes is kept, though
// there is no reference to it here any more. The memory of a sender that has ended is not kept.
func TestAbandoned(t *testing.T) {
	for _, ended := range []bool{true, false} {
		freed := make(chan bool, 1)
		func() {
			c := &together{ended: ended}
			s, r := helping(t, c)
			memory := new([helpFrom]byte)
			runtime.AddCleanup(memory, func(int) { freed <- true }, 0)
			_, goOn, helped := heldUp(t, c, s, r, memory[:])
			r.e.Leave()
			c.places = [][]byte{nil, make([]byte, helpFrom)} // the sender writes to an address, which is no reference
			close(goOn)
			<-helped
		}()
		for range 5 {
			runtime.GC()
		}
		select {
		case <-freed:
			if !ended {
				t.Error("memory that the sender writes to may be in use elsewhere")
			}
		case <-time.After(map[bool]time.Duration{true: time.Minute, false: 200 * time.Millisecond}[ended]):
			if ended {
				t.Error("memory that no rank writes to is kept")
			}
		}
	}
}

// gone is a Reach of a sender whose process has ended.
type gone struct{ together }

func (*gone) Read(int, uint64, []byte) error { return ErrVanished }

// TestSenderGone checks that a payload whose sender has ended before it was copied never counts as received, however
// often the receiver polls.
func TestSenderGone(t *testing.T) {
	for _, n := range []int{helpFrom - 1, helpFrom, 1 << 20} {
		c := &gone{}
		s, r := helping(t, c)
		if _, ok, err := s.TryReserve(0); !ok || err != nil {
			t.Fatal(ok, err)
		}
		s.Lend(&call.Header{}, bytes.Repeat([]byte("new"), n)[:n], true)
		into := make([]byte, n)
		for poll := range 10 {
			if b, ok, err := r.TryPeekInto(&call.Header{}, into); ok || err != nil {
				t.Fatalf("poll %d of %d bytes of a sender that has ended: %d bytes, %v, %v", poll, n, len(b), ok, err)
			}
		}
	}
}
