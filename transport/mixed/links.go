package mixed

import (
	"github.com/treerun/treerun/transport"
)

// sender is the sending end of a link of either side.
//
// A step posts on several links and ends with one Commit, whose fence is for
// all of them. A remote link's has none for shared memory, so it gets one.
type sender struct {
	transport.Sender
	e       *Endpoint
	isLocal bool
	window  []byte // the reserved one
}

// TryReserve returns the window of the next free slot.
func (s *sender) TryReserve(n int) (window []byte, ok bool, err error) {
	s.window, ok, err = s.Sender.TryReserve(n)
	return s.window, ok, err
}

// Commit publishes the reserved window.
func (s *sender) Commit(h *transport.Header) {
	if !s.isLocal {
		s.e.Local.Fence()
	}
	s.Sender.Commit(h)
}

// Share publishes what lender has reserved: where it lies on its own side, and
// a copy on the other.
func (s *sender) Share(h *transport.Header, lender transport.Sender) {
	l := lender.(*sender)
	if s.isLocal == l.isLocal {
		s.Sender.Share(h, l.Sender)
		return
	}
	w, _, _ := s.TryReserve(len(l.window)) // it was free for the caller
	copy(w, l.window)
	s.Post(h)
}

// receiver is the receiving end of a remote link.
type receiver struct {
	transport.Receiver
	e *Endpoint
}

// PostReceive has the remote side put what comes into into, if it can.
func (r *receiver) PostReceive(into []byte, chunk int) {
	if p, ok := r.Receiver.(transport.ReceivePoster); ok {
		p.PostReceive(into, chunk)
	}
}

// Release gives the slot back.
func (r *receiver) Release() {
	r.e.Local.Fence()
	r.Receiver.Release()
}
