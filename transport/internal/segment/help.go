package segment

import (
	"errors"
	"fmt"
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

// owned is a payload in this process's own memory that was posted at a position. Only
// its line has the words that the ends share: those of others hold payloads there.
type owned struct {
	pos    uint32
	window []byte
}

// remember keeps what was posted last, which lies in this process's own memory, for
// Help.
func (s *sender) remember(window []byte) {
	if s.own == nil {
		s.own = make([]owned, s.e.m.Layout.Slots)
	}
	s.own[s.tx.Slot(s.last)] = owned{s.last, window}
}

// Help copies a piece of what was lent to where the receiver wants it.
func (s *sender) Help() (bool, error) {
	if s.own == nil || !s.lent {
		return false, nil
	}
	for pos := s.tx.Oldest(); int32(s.last-pos) >= 0; pos++ {
		o := &s.own[s.tx.Slot(pos)]
		if o.window == nil || o.pos != pos {
			continue
		}
		l := s.tx.PayloadLine(pos)
		if ok, err := l.Help(o.window, s); ok || err != nil {
			s.bell.Ring()
			return ok, err
		}
	}
	return false, nil
}

// Aborted is for ring: nothing is written once there is a fault.
func (s *sender) Aborted() bool {
	_, aborted := s.e.Aborted()
	return aborted
}

// Write is for ring: it copies a part of a payload to the receiver.
func (s *sender) Write(target uint64, b []byte) (bool, error) {
	err := s.e.reach.Write(s.link.Dst, target, b)
	switch {
	case errors.Is(err, ErrVanished):
		return false, nil // whoever waits learns of the end of the peer
	case err != nil:
		return false, s.failure(fmt.Errorf("writing %d bytes to rank %d's memory: %w", len(b), s.link.Dst, err))
	}
	return true, nil
}

// bring copies the oldest payload, of len(into) bytes in the sender's memory, to
// into. A large one is offered to the sender, which may bring a part of it. It returns where
// the payload is: the into of the first call for it. Nil means that the sender has still to end
// what it has begun, or that there is a fault.
func (r *receiver) bring(into []byte) ([]byte, error) {
	if r.e.reach == nil || len(into) <= r.e.m.Layout.SlotBytes || len(into) < helpFrom {
		return r.read(into)
	}
	l := r.rx.PayloadLine(r.rx.Next())
	if !r.offered && !l.Willing() {
		return r.read(into)
	}
	if _, aborted := r.e.Aborted(); aborted {
		return nil, nil // nothing is offered any more
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.e.closed.Load() {
		return nil, r.failure(transport.ErrClosed)
	}
	r.offered = true
	return r.shared.Bring(l, into, r.e.reach.Address(into), r)
}

// read copies the oldest payload by this end alone.
func (r *receiver) read(into []byte) ([]byte, error) {
	if ok, err := r.Read(into, 0); !ok || err != nil {
		return nil, err
	}
	return into, nil
}

// CancelReceive withdraws what is offered. A sender that is stopped while it copies a piece is not
// waited for longer than withdrawMax: it may write to the memory when it goes on.
func (r *receiver) CancelReceive() {
	if r.offered {
		r.offered = !r.withdraw(time.Now().Add(withdrawMax))
	}
}

// withdraw withdraws what is offered, and reports whether nobody writes to it any more. If not
// it keeps the memory from being used for anything else. Any goroutine may call it.
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

// abandoned is memory to which a sender may still write a piece that it has claimed, though
// the call that offered it has failed: it is nobody else's until this process ends.
var abandoned sync.Map
