package segment

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/ring"
)

// end is the common part of both ends of a link.
type end struct {
	e          *Endpoint
	link       transport.Link
	mem        []byte    // of the FIFO
	place      int       // of the FIFO in the segment
	bell       *BellWord // of the peer
	peerClosed *uint32
	sync       raceSync
}

func newEnd(e *Endpoint, k transport.Link, mem []byte, peer int) end {
	return end{
		e: e, link: k, mem: mem, place: e.m.fifo(k), bell: &e.bells[peer],
		peerClosed: word(e.m.rank(e.mem, peer), offClosed),
		sync:       newRaceSync(e.m, k),
	}
}

// idle reports whether an end that can do nothing now may be able to later.
func (d *end) idle() bool { return atomic.LoadUint32(d.peerClosed) == 0 }

// gone returns the error of a link whose peer has closed. Where the set has a fault it returns nil: the peer most
// likely closed because of it, and a waiting caller learns the fault, which is the first cause, from Aborted.
func (d *end) gone() error {
	if _, aborted := d.e.Aborted(); aborted {
		return nil
	}
	return d.failure(transport.ErrPeerClosed)
}

// failure adds the link to err.
func (d *end) failure(err error) error {
	if d.e.closed.Load() {
		err = transport.ErrClosed
	}
	return fmt.Errorf("lane %d, rank %d -> rank %d: %w", d.link.Lane, d.link.Src, d.link.Dst, err)
}

// sender implements transport.Sender.
type sender struct {
	end
	tx    ring.Tx
	loans [][]loan // by slot: slots of other senders that publish its payload; nil before the first
	lent  bool     // a caller's memory is with the receiver
	last  uint32   // position of the latest lent payload
	lost  bool     // the receiver has closed before it released a lent payload
	own   []owned  // by slot: payloads that Help may copy a part of, or pass; nil before the first
	at    uint32   // position of the payload that Help passes

	unread, unwritten bool // the receiver cannot read this rank's memory, or this rank write the receiver's
}

// loan is a slot of another sender that publishes a payload lying in ours.
type loan struct {
	to  *sender
	pos uint32
}

// settled reports whether every receiver to which the payload of the next slot was lent has released it, or has closed
// and will not read it any more.
func (s *sender) settled() bool {
	i := int(s.tx.Next()) & (len(s.loans) - 1)
	for _, l := range s.loans[i] {
		if !l.to.tx.Free(l.pos) && atomic.LoadUint32(l.to.peerClosed) == 0 {
			return false
		}
		l.to.sync.acquireBack()
	}
	s.loans[i] = s.loans[i][:0]
	return true
}

// TryReserve returns the window of the next free slot. Where there is none, and perhaps never
// will be, it looks once more: the peer may have released a slot before it closed.
func (s *sender) TryReserve(n int) ([]byte, bool, error) {
	for again := false; ; again = true {
		b, ok, err := s.tx.TryReserve(n)
		switch {
		case err != nil || s.e.closed.Load():
			return nil, false, s.failure(err)
		case ok && !s.lost:
			if s.loans != nil && !s.settled() {
				return nil, false, nil
			}
			s.sync.acquireBack()
			return b, true, nil
		case s.idle():
			return nil, false, nil
		case again:
			return nil, false, s.gone()
		}
	}
}

// Commit publishes the reserved window and wakes the receiver if it sleeps.
func (s *sender) Commit(h *call.Header) {
	s.sync.releaseForward()
	s.tx.Commit(h)
	s.bell.Ring()
}

// Wake wakes the receiver if it sleeps.
func (s *sender) Wake() { s.bell.Ring() }

// Reserved returns the window that is reserved.
func (s *sender) Reserved() []byte {
	window, _ := s.tx.Reserved()
	return window
}

// Share publishes the window that lender has reserved.
func (s *sender) Share(h *call.Header, lender transport.Sender) {
	window := lender.Reserved()
	s.sync.releaseForward()
	from, same := lender.(*sender)
	if !same || from.e != s.e || len(window) <= transport.MaxInline {
		s.postCopy(h, window)
		return
	}
	_, slot := from.tx.Reserved()
	if from.loans == nil {
		from.loans = make([][]loan, s.e.m.Layout.Slots)
	}
	at := from.place + offsetIn(from.mem, window)
	i := int(slot) & (len(from.loans) - 1)
	from.loans[i] = append(from.loans[i], loan{s, s.tx.PostAt(h, at, len(window))})
}

// postCopy publishes a copy of a payload in the slot that is reserved.
func (s *sender) postCopy(h *call.Header, payload []byte) {
	own, ok, err := s.tx.TryReserve(len(payload))
	if !ok || err != nil {
		panic("segment: Share or Lend without a reserved slot")
	}
	copy(own, payload)
	s.tx.Post(h)
}

// Lend publishes a window of a caller.
func (s *sender) Lend(h *call.Header, window []byte, helps bool) {
	s.sync.releaseForward()
	if len(window) <= transport.MaxInline {
		s.postCopy(h, window)
		return
	}
	helped := helps && len(window) >= helpShared && !s.unread
	if reach := s.e.reach; reach != nil && (helped || !s.e.Shared(window)) {
		address := reach.Address(window)
		s.at = s.tx.Next()
		l := s.tx.PayloadLine(s.at)
		if s.unread {
			s.Fill(window[:min(l.Part, len(window))])
			l.PostPart()
		} else {
			l.Post(helps && !s.unwritten)
		}
		s.last = s.tx.PostPrivate(h, address, len(window))
		s.remember(window)
	} else {
		s.last = s.tx.PostAt(h, s.e.heapOffset(window), len(window))
	}
	s.lent = true
}

// LendsAny reports that a receiver reads lent memory where it lies.
func (s *sender) LendsAny() bool { return false }

// Returned reports whether all lent memory has been returned.
func (s *sender) Returned() bool {
	if !s.lent {
		return true
	}
	if !s.tx.Free(s.last) {
		if atomic.LoadUint32(s.peerClosed) == 0 {
			return false
		}
		s.lost = !s.tx.Free(s.last) // the receiver may have released it before it closed
	}
	s.sync.acquireBack()
	s.lent = false
	clear(s.own) // the windows belong to the callers
	return true
}

// receiver implements transport.Receiver.
type receiver struct {
	end
	rx      ring.Rx
	others  map[int][]byte // memory of FIFOs that lend to this one, by place
	lender  []byte         // memory of the latest lender, which is usually also the next
	lendsAt uint64         // the place of lender
	fetched []byte         // the payload of the oldest slot, once copied from the sender's memory
	offered bool           // the sender may help to copy it

	mu     sync.Mutex // held only for large payloads
	shared ring.Receiver
	gaveUp bool // a withdrawal timed out once: the next does not wait
}

// TryHead returns the header and the length of the oldest unread payload.
func (r *receiver) TryHead(h *call.Header) (int, bool, error) {
	b, ok, err := r.peek(h)
	if _, n, private := r.rx.Private(); ok && private {
		return n, true, err
	}
	return len(b), ok, err
}

// TryPeek returns the oldest unread payload.
func (r *receiver) TryPeek(h *call.Header) ([]byte, bool, error) {
	b, ok, err := r.peek(h)
	if b == nil && ok && err == nil { // it is empty, or in the sender's memory
		return r.TryPeekInto(h, nil)
	}
	return b, ok, err
}

// TryPeekInto returns the oldest unread payload, in into if it has to be copied from the sender's memory.
func (r *receiver) TryPeekInto(h *call.Header, into []byte) ([]byte, bool, error) {
	b, ok, err := r.peek(h)
	if !ok || err != nil {
		return nil, false, err
	}
	_, n, private := r.rx.Private()
	switch {
	case !private:
		return b, true, nil
	case r.fetched != nil:
		return r.fetched, true, nil
	case len(into) != n:
		if into = r.rx.Window(n); into == nil {
			return nil, true, nil
		}
	}
	b, err = r.bring(into)
	r.fetched = b
	return b, b != nil, err
}

// TryRead copies a part of the oldest unread payload.
func (r *receiver) TryRead(into []byte, at int) (bool, error) {
	var h call.Header
	b, ok, err := r.peek(&h)
	if !ok || err != nil {
		return false, err
	}
	_, n, private := r.rx.Private()
	if !private {
		n = len(b)
	}
	if at < 0 || at > n || len(into) > n-at {
		return false, r.failure(fmt.Errorf("%w: payload of %d bytes has no %d at %d", transport.ErrCorrupt, n, len(into), at))
	}
	if !private {
		copy(into, b[at:])
		return true, nil
	}
	if r.fetched == nil && !r.offered {
		if ok, err := r.Read(into, at); !errors.Is(err, ring.ErrRefused) {
			return ok, err
		}
	}
	if r.fetched == nil {
		whole := r.shared.Target()
		if whole == nil {
			whole = make([]byte, n)
		}
		if r.fetched, err = r.bring(whole); r.fetched == nil {
			return false, err
		}
	}
	copy(into, r.fetched[at:])
	return true, nil
}

// Read copies bytes from the sender's memory, where the payload is, from byte at of it on. It returns ring.ErrRefused
// if the system does not allow it.
func (r *receiver) Read(into []byte, at int) (bool, error) {
	address, _, _ := r.rx.Private()
	if r.e.reach == nil {
		return false, r.failure(fmt.Errorf("%w: payload in the sender's memory, which nobody can read", transport.ErrCorrupt))
	}
	err := r.e.reach.Read(r.link.Src, address+uint64(at), into)
	if _, aborted := r.e.Aborted(); aborted || errors.Is(err, ErrVanished) {
		return false, nil // a waiting caller learns of the fault, or of the end of the peer
	}
	if err != nil {
		return false, ring.ErrRefused
	}
	return true, nil
}

// peek returns the oldest unread payload, or the place in the slot of one that is still in the sender's memory. Where
// there is none, and perhaps never will be, it looks once more: everything that the peer sent before it closed is
// visible now at the latest, since it closed afterwards.
func (r *receiver) peek(h *call.Header) ([]byte, bool, error) {
	for again := false; ; again = true {
		b, ok, err := r.rx.TryPeek(h)
		switch {
		case ok:
			r.sync.acquireForward()
			return b, true, nil
		case err != nil || r.e.closed.Load():
			return nil, false, r.failure(err)
		case r.idle():
			return nil, false, nil
		case again:
			return nil, false, r.gone()
		}
	}
}

// settle resets the state of the transfer of the oldest slot's payload.
func (r *receiver) settle() {
	if r.offered {
		if r.fetched == nil {
			panic("segment: Release of a payload that has begun to come")
		}
		r.offered = false
		r.mu.Lock()
		r.shared = ring.Receiver{}
		r.mu.Unlock()
	}
	r.fetched = nil
}

// Release gives the slot back and wakes the sender if it sleeps.
func (r *receiver) Release() {
	r.settle()
	r.sync.releaseBack()
	r.rx.Release()
	r.bell.Ring()
}

// Drop gives the slot back without waking the sender.
func (r *receiver) Drop() {
	r.settle()
	r.sync.releaseBack()
	r.rx.Drop()
}

// Wake wakes the sender if it sleeps.
func (r *receiver) Wake() { r.bell.Ring() }
