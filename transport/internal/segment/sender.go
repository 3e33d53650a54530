package segment

import (
	"sync/atomic"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/ring"
)

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

// loansReturned reports whether every receiver to which the payload of the next slot was lent has released it, or has
// closed and will not read it any more.
func (s *sender) loansReturned() bool {
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
			if s.loans != nil && !s.loansReturned() {
				return nil, false, nil
			}
			s.sync.acquireBack()
			return b, true, nil
		case s.idle():
			return nil, false, nil
		case again:
			return nil, false, s.endError()
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
	at, shared := s.e.Offset(window)
	switch reach := s.e.reach; {
	case reach != nil && (helped || !shared):
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
	case shared:
		s.last = s.tx.PostAt(h, s.e.begin(s.e.member)+at, len(window))
	default:
		panic("segment: Lend of memory that the receiver cannot read")
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
