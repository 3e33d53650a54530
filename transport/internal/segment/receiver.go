package segment

import (
	"errors"
	"fmt"
	"sync"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/ring"
)

// receiver implements transport.Receiver.
type receiver struct {
	end
	rx      ring.Rx
	others  map[int][]byte // memory of FIFOs that lend to this one, by place
	lender  []byte         // memory of the latest lender, which is usually also the next
	lendsAt uint64         // the place of lender
	fetched []byte         // the payload of the oldest slot, once copied from the sender's memory
	offered bool           // the sender may help to copy it
	held    int            // slots that Hold has not given back yet

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
	b, err = r.fetch(into)
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
		if r.fetched, err = r.fetch(whole); r.fetched == nil {
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
		return false, r.failure(fmt.Errorf("%w: payload in the sender's memory, which this rank cannot read",
			transport.ErrCorrupt))
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
			return nil, false, r.endError()
		}
	}
}

// resetTransfer resets the state of the transfer of the oldest slot's payload.
func (r *receiver) resetTransfer() {
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

// Release gives the slot back and wakes the sender if it sleeps. Slots with small payloads are held, and given back
// several at once: a sender that waits has filled all others, so that this rank has payloads left to read.
func (r *receiver) Release() {
	if r.rx.MayHold() && r.held+1 < r.e.m.Layout.Slots/2 {
		r.held++
		r.rx.Hold()
		return
	}
	r.held = 0
	r.resetTransfer()
	r.sync.releaseBack()
	r.rx.Release()
	r.bell.Ring()
}

// Drop gives the slot back without waking the sender.
func (r *receiver) Drop() {
	r.held = 0
	r.resetTransfer()
	r.sync.releaseBack()
	r.rx.Drop()
}

// Wake wakes the sender if it sleeps.
func (r *receiver) Wake() { r.bell.Ring() }

// resolve is a ring.Shared: it returns a payload that, according to the peer, lies elsewhere in the segment, in a
// heap or in another FIFO of the same sender.
func (r *receiver) resolve(at uint64, n int) ([]byte, error) {
	if in := at - r.lendsAt; in < uint64(len(r.lender)) && uint64(n) <= uint64(len(r.lender))-in {
		return r.lender[in : in+uint64(n) : in+uint64(n)], nil
	}
	m := r.e.m
	switch {
	case at >= uint64(m.Ends):
	case at >= uint64(m.Heaps):
		in := int(at) - m.Heaps
		member, in := in/m.Layout.HeapBytes, in%m.Layout.HeapBytes
		if r.e.holds(in, n) {
			return r.e.window(member, in, n)
		}
	case at >= uint64(m.Bytes):
		in := (int(at) - m.Bytes) % m.fifoBytes
		first := m.fifo(transport.Link{Src: r.link.Src, Dst: m.Layout.Member(0)})
		end := first + m.Layout.MemberCount()*transport.MaxLanes*m.fifoBytes
		if from := int(at) - in; from >= first && from < end && n <= m.fifoBytes-in {
			b, err := r.other(from)
			if err != nil {
				return nil, err
			}
			r.lender, r.lendsAt = b, uint64(from)
			return b[in : in+n : in+n], nil
		}
	}
	return nil, fmt.Errorf("%w: payload of %d bytes at %d of %d", transport.ErrCorrupt, n, at, m.Ends)
}

// other returns the memory of the FIFO at a place.
func (r *receiver) other(at int) ([]byte, error) {
	if b := r.others[at]; b != nil {
		return b, nil
	}
	b, err := r.e.store.Map(at, r.e.m.fifoBytes)
	if err == nil {
		if r.others == nil {
			r.others = make(map[int][]byte)
		}
		r.others[at] = b
	}
	return b, err
}
