package segment

import (
	"errors"
	"sync"
	"time"

	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/ring"
)

var (
	_ ring.Writer = (*sender)(nil)
	_ ring.Reader = (*receiver)(nil)
)

// helpFrom is the size, in bytes, from which both ends copy a payload.
const helpFrom = 64 << 10

// helpShared is helpFrom where the receiver can read the payload without a system call,
// as it lies in memory that Endpoint.Alloc gave out: two ranks take 148 us for 2 MiB when
// one of them copies, and 67 when both do, but as long for 512 KiB and longer for less.
const helpShared = 1 << 20

// withdrawMax is how long a receiver that has failed waits for a piece that a sender has begun
// to copy. It takes some milliseconds at most, unless the sender is stopped.
const withdrawMax = time.Second

// owned is a payload in this process's own memory that was posted at a position. Only its line has the words that the
// ends share: the lines of other payloads hold payload bytes there.
type owned struct {
	pos    uint32
	window []byte
}

// remember keeps the window of the latest post, which lies in this process's own memory, for Help.
func (s *sender) remember(window []byte) {
	if s.own == nil {
		s.own = make([]owned, s.e.m.Layout.Slots)
	}
	s.own[s.tx.Slot(s.last)] = owned{s.last, window}
}

// Help passes payloads that the receiver cannot read through the slot, and, if idle, copies a piece of a lent payload
// to the place that the receiver has offered.
func (s *sender) Help(idle bool) (bool, error) {
	if s.own == nil || !s.lent {
		return false, nil
	}
	for pos := s.tx.Oldest(); int32(s.last-pos) >= 0; pos++ {
		o := &s.own[s.tx.Slot(pos)]
		if o.window == nil || o.pos != pos {
			continue
		}
		s.at = pos
		l := s.tx.PayloadLine(pos)
		if l.Pass(o.window, s) {
			s.unread = true
			s.bell.Ring()
			return true, nil
		}
		if !idle || s.unwritten {
			continue
		}
		if ok := l.Help(o.window, s); ok || s.unwritten { // then it is left to the receiver
			s.bell.Ring()
			return ok, nil
		}
	}
	return false, nil
}

// Aborted implements ring.Writer: no byte is written once there is a fault.
func (s *sender) Aborted() bool {
	_, aborted := s.e.Aborted()
	return aborted
}

// Write implements ring.Writer: it copies a part of a payload to the receiver. If the system refuses it, the receiver
// copies all payloads that are lent on this link from now on.
func (s *sender) Write(target uint64, b []byte) bool {
	err := s.e.reach.Write(s.link.Dst, target, b)
	if err != nil && !errors.Is(err, ErrVanished) { // a waiting caller learns of the end of the peer
		s.unwritten = true
	}
	return err == nil
}

// Fill implements ring.Writer: it copies a part of a payload to its slot.
func (s *sender) Fill(b []byte) { copy(s.tx.Room(s.at), b) }

// fetch copies the oldest payload, of len(into) bytes in the sender's memory, to into. A large one is offered to the
// sender, which may bring a part of it; one that cannot be read the sender passes through the slot. It returns the
// place of the payload: the into of the first call for it. Nil means that the sender has not finished its piece, or
// that there is a fault.
func (r *receiver) fetch(into []byte) ([]byte, error) {
	l := r.rx.PayloadLine(r.rx.Next())
	shared := len(into) > r.e.m.Layout.SlotBytes && len(into) >= helpFrom && l.MayHelp()
	if !r.offered && !shared && !l.Passes() {
		if ok, err := r.Read(into, 0); !errors.Is(err, ring.ErrRefused) {
			if !ok {
				into = nil
			}
			return into, err
		}
	}
	if _, aborted := r.e.Aborted(); aborted {
		return nil, nil // no memory is offered any more
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.e.closed.Load() {
		return nil, r.failure(transport.ErrClosed)
	}
	if !r.offered && !shared {
		r.shared.Ask(l, into)
	}
	r.offered = true
	b, err := r.shared.Bring(l, into, r.e.reach.Address(into), r)
	if b == nil && l.Passes() {
		r.bell.Ring() // the sender, which may wait for other ranks
	}
	return b, err
}

// Take implements ring.Reader: it copies a part of a payload from its slot.
func (r *receiver) Take(b []byte) { copy(b, r.rx.Room(r.rx.Next())) }

// CancelReceive withdraws the offered memory. It waits at most withdrawMax for a sender that is stopped while it copies
// a piece: the sender may write to the memory when it continues.
func (r *receiver) CancelReceive() {
	if r.offered {
		r.offered = !r.withdraw(time.Now().Add(withdrawMax))
	}
}

// withdraw withdraws the offered memory, and reports whether the sender writes to it no more. If not it keeps the
// memory from being used for anything else. Any goroutine may call it.
func (r *receiver) withdraw(deadline time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	idle := backoff.Wait{Max: time.Millisecond}
	for !r.shared.Withdraw() && !r.e.reach.Ended(r.link.Src) {
		if r.gaveUp || time.Now().After(deadline) {
			if !r.gaveUp {
				abandoned.Store(&r.shared.Target()[0], true)
			}
			r.gaveUp = true
			if r.e.closed.Load() {
				r.shared = ring.Receiver{}
			}
			return false
		}
		idle.Pause()
	}
	r.shared = ring.Receiver{}
	return true
}

// abandoned is memory to which a sender may still write a piece that it has claimed, though the call that offered it
// has failed: it is not reused until this process ends.
var abandoned sync.Map
