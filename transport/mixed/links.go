package mixed

import (
	"github.com/treerun/treerun/transport"
)

// sender is the sending end of a link of either side.
//
// A step posts on several links and ends with one Commit or Release, whose fence is for
// all of them, on both sides: a fence orders what a goroutine does, wherever it is.
type sender struct {
	transport.Sender
	isLocal bool
	window  []byte // the reserved one
}

// TryReserve returns the window of the next free slot.
func (s *sender) TryReserve(n int) (window []byte, ok bool, err error) {
	s.window, ok, err = s.Sender.TryReserve(n)
	return s.window, ok, err
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
