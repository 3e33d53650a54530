package progress

import "sync/atomic"

// handover determines which goroutine polls: at most one goroutine of a rank. The others have pushed their seats and
// block. It is a machine of steps of one atomic operation each, and its test takes them in every order.
//
// A goroutine pushes its seat and then tries to hold; the poller releases and then looks for seats that were
// pushed. All four operations are sequentially consistent, so that no seat is left without a poller.
type handover struct {
	held    atomic.Bool          // there is a poller
	arrived atomic.Pointer[Seat] // seats that no poller has taken yet, latest first
}

// step is the next action of a goroutine.
type step int

const (
	hold          step = iota // become the poller, if there is none
	push                      // leave a chain of seats to the poller
	again                     // become the poller, if it has left meanwhile
	release                   // stop being the poller
	checkArrivals             // check for seats that the next poller, if there is one, might not see
	regain                    // become the poller for them, if there is none

	polls  // the end: the goroutine is the poller
	blocks // the end: the poller will wake it
	left   // the end: it is not the poller
)

// next takes one step for a chain of seats, and returns the one after it.
func (h *handover) next(at step, first, last *Seat) step {
	switch at {
	case hold, again, regain:
		if h.held.CompareAndSwap(false, true) {
			return polls
		}
		return map[step]step{hold: push, again: blocks, regain: left}[at]
	case push:
		for swapped := false; !swapped; {
			last.next = h.arrived.Load()
			swapped = h.arrived.CompareAndSwap(last.next, first)
		}
		return again
	case release:
		h.held.Store(false)
		return checkArrivals
	default: // look
		if h.arrived.Load() != nil {
			return regain
		}
		return left
	}
}

// run takes steps until the end.
func (h *handover) run(at step, first, last *Seat) step {
	for at < polls {
		at = h.next(at, first, last)
	}
	return at
}

// collect adds the seats that were pushed to others.
func (h *handover) collect(others []*Seat) []*Seat {
	for s := h.arrived.Swap(nil); s != nil; {
		next := s.next
		s.next, others = nil, append(others, s)
		s = next
	}
	return others
}
