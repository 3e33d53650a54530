package segment

import (
	"errors"
	"fmt"
	"sync"

	"github.com/treerun/treerun/transport"
)

var _ transport.Helper = (*sender)(nil)

// helpFrom is the size, in bytes, from which both ends copy a payload: each half of it,
// or one of them all while the other does something else. More and smaller pieces
// are slower, as each costs about 1.5 us: two ranks take 15 us for 512 KiB in pieces of
// 128 KiB, 24 in pieces of 64 and 28 in pieces of 32, and 25 where one end copies all.
const helpFrom = 64 << 10

// piece returns a half of b, the first one up to a page boundary.
func piece(b []byte, i int) []byte {
	half := min((len(b)/2+pageBytes-1)&^(pageBytes-1), len(b))
	if i == 0 {
		return b[:half]
	}
	return b[half:]
}

// helpShared is helpFrom where the receiver can read the payload without a system call,
// as it lies in memory that Endpoint.Alloc gave out: two ranks take 148 us for 2 MiB when
// one of them copies, and 67 when both do, but as long for 512 KiB and longer for less.
const helpShared = 1 << 20

// pieces is how many there are of a payload.
const pieces = 2

// Helps says whether this rank will call Help for what it lends from now on.
func (s *sender) Helps(will bool) { s.helps = will }

// owned is a payload in this process's own memory that was posted at a position. Only
// its line has words to claim by: those of others hold payloads there.
type owned struct {
	pos    uint32
	window []byte
}

// remember keeps what was posted last, which lies in this process's own memory, for
// Help.
func (s *sender) remember(window []byte) {
	if s.e.push == nil || !s.helps {
		return
	}
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
		window := o.window
		target, i, ok := s.tx.Claim(pos, pieces)
		if !ok {
			continue
		}
		err := s.e.push.Write(s.link, target+uint64(i*len(piece(window, 0))), piece(window, i))
		if _, aborted := s.e.Aborted(); aborted || errors.Is(err, ErrVanished) {
			return false, nil // whoever waits learns of the fault, or of the end of the peer
		}
		if err != nil {
			return false, s.failure(fmt.Errorf("writing %d bytes to rank %d's memory: %w", len(window), s.link.Dst, err))
		}
		s.tx.Done(pos)
		s.bell.Ring()
		return true, nil
	}
	return false, nil
}

// bring copies the oldest payload, of len(into) bytes in the sender's memory, to
// into. A large one is offered to the sender, which may bring a part of it.
// False means that the sender has still to end what it has begun.
func (r *receiver) bring(into []byte) (bool, error) {
	if r.e.push == nil || !r.rx.Willing() || len(into) <= r.e.m.Layout.SlotBytes || len(into) < helpFrom {
		return r.fetch(into, 0)
	}
	if !r.offered {
		r.offered, r.taken = true, 0
		r.target.Store(&into[0])
		if r.e.closed.Load() {
			r.abandon()
		}
		r.rx.Offer(r.e.push.Target(into))
	}
	for {
		i, ok := r.rx.Claim(pieces)
		if !ok {
			return r.rx.Helped() >= pieces-r.taken, nil
		}
		if r.taken == pieces {
			return false, r.failure(fmt.Errorf("%w: more than %d pieces claimed", transport.ErrCorrupt, pieces))
		}
		if ok, err := r.fetch(piece(into, i), i*len(piece(into, 0))); !ok || err != nil {
			return false, err // and the piece is never there
		}
		r.taken++
	}
}

// abandoned is memory to which a sender may still write a piece that it has claimed, though
// the call that offered it has failed, and the endpoint is closed: it is nobody else's until
// this process ends.
var abandoned struct {
	sync.Mutex
	memory []*byte
}

// abandon keeps what r has offered and has not been given back from being used again.
func (r *receiver) abandon() {
	if p := r.target.Load(); p != nil {
		abandoned.Lock()
		abandoned.memory = append(abandoned.memory, p)
		abandoned.Unlock()
	}
}
