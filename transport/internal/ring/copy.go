package ring

import (
	"fmt"

	"github.com/treerun/treerun/transport"
)

// Both ends of a link may copy one payload, which lies in the sender's own memory, to where
// the receiver wants it: each copies a part. The protocol is a state machine over two words of
// the payload's line, with no clock and no system call; package segment gives it the means to
// copy. Its tests explore every interleaving of two ends, at the level of single loads and
// stores.
//
// The payload has pieces. A state of two bits per piece, all in one word, says who copies it:
//
//	free     not offered, or the receiver has taken it
//	open     offered: whoever comes first copies it
//	claimed  the sender copies it
//	done     the sender has copied it
//
//	free -> open          receiver: Bring, with the target, for all pieces at once
//	open -> free          receiver: Bring takes a piece to copy it; Withdraw takes the rest
//	open -> claimed       sender: Help
//	claimed -> done       sender: Help, after the copy
//	claimed -> open       sender: Help, when there is a fault, or the copy failed
//
// Every change is a compare-and-swap, so exactly one end copies a piece. The payload is there
// when each piece is done or was copied by the receiver, which only the receiver counts, after
// its copy. The target is fixed when the pieces are offered.

// Word and Address are memory that both ends share: *atomic.Uint32 and *atomic.Uint64.
type (
	Word interface {
		Load() uint32
		Store(uint32)
		CompareAndSwap(old, new uint32) bool
	}
	Address interface {
		Load() uint64
		Store(uint64)
	}
)

// States of a piece.
const (
	free = iota
	open
	claimed
	done

	stateBits = 2
	stateMask = 1<<stateBits - 1

	willing = 1 << 31 // in the word: the sender may help
)

// pieces is how many there are of a payload: each end copies a half, or one of them all while the
// other does something else. More and smaller pieces are slower, as each costs about 1.5 us: two ranks
// take 15 us for 512 KiB in pieces of 128 KiB, 24 in pieces of 64 and 28 in pieces of 32, and 25 where
// one end copies all. Pieces begin at pages.
const (
	pieces = 2
	grain  = 4096
)

// Line is one payload as both ends see it. What the peer writes to it is checked: a piece is
// never outside the payload or the target.
type Line struct {
	State  Word
	Target Address // where the payload goes, in the receiver's memory
	Pieces int     // at most 15
	Grain  int     // pieces begin at multiples of it
}

// Post prepares the line for a new payload. Sender only, before it publishes the payload.
func (l *Line) Post(helps bool) {
	w := uint32(0)
	if helps {
		w = willing
	}
	l.State.Store(w)
}

// Willing reports whether the sender may help to copy the payload.
func (l *Line) Willing() bool { return l.State.Load()&willing != 0 }

func stateOf(w uint32, piece int) uint32 { return w >> (stateBits * piece) & stateMask }

// move changes the state of a piece, if it is from.
func (l *Line) move(piece int, from, to uint32) bool {
	for {
		w := l.State.Load()
		if stateOf(w, piece) != from {
			return false
		}
		if l.State.CompareAndSwap(w, w+(to-from)<<(stateBits*piece)) {
			return true
		}
	}
}

// part returns which bytes of n belong to a piece.
func (l *Line) part(n, piece int) (from, to int) {
	size := (n + l.Pieces - 1) / l.Pieces
	size = (size + l.Grain - 1) / l.Grain * l.Grain
	return min(piece*size, n), min(piece*size+size, n)
}

// Writer copies to the receiver's memory.
type Writer interface {
	// Aborted reports whether there is a fault: the receiver may have failed, and nothing
	// more is to be written.
	Aborted() bool

	// Write copies b to an address of the receiver's memory. False without an error: the
	// receiver has ended.
	Write(target uint64, b []byte) (bool, error)
}

// Help copies a piece of the payload, if one is offered, and reports whether it did. Sender
// only. Precondition: the receiver has not released the payload.
func (l *Line) Help(payload []byte, to Writer) (bool, error) {
	for i := l.Pieces - 1; i >= 0; i-- {
		if !l.move(i, open, claimed) {
			continue
		}
		if to.Aborted() {
			l.move(i, claimed, open)
			return false, nil
		}
		a, b := l.part(len(payload), i)
		if ok, err := to.Write(l.Target.Load()+uint64(a), payload[a:b]); !ok || err != nil {
			l.move(i, claimed, open)
			return false, err
		}
		l.move(i, claimed, done)
		return true, nil
	}
	return false, nil
}

// Reader copies from the sender's memory.
type Reader interface {
	// Read copies the bytes of the payload from byte at of it on to b. False without an error:
	// the sender has ended, or there is a fault, and b is not filled.
	Read(b []byte, at int) (bool, error)
}

// Receiver is the receiving end of one payload. The zero value has none. One goroutine at a
// time may use it.
type Receiver struct {
	line   Line
	into   []byte // nil while nothing is offered
	taken  uint32 // pieces that the sender cannot claim, a bit for each
	copied uint32 // those of them that are in into
}

// Target returns where the payload goes, nil when none is offered.
func (r *Receiver) Target() []byte { return r.into }

// Bring copies what the sender does not. It returns the payload, when it is there; nil
// while the sender is copying, and for ever once a Read has failed. The first call offers the
// payload, to be copied to into, which lies at target for the sender. Later calls return the into
// of the first, whatever theirs is: the sender may have copied to it. Precondition: into is not
// empty.
func (r *Receiver) Bring(l Line, into []byte, target uint64, from Reader) ([]byte, error) {
	if r.into == nil {
		*r = Receiver{line: l, into: into}
		l.Target.Store(target)
		w := uint32(willing)
		for i := range l.Pieces {
			w |= open << (stateBits * i)
		}
		l.State.Store(w)
	}
	for i := range r.line.Pieces {
		if r.taken&(1<<i) != 0 || !r.line.move(i, open, free) {
			continue
		}
		r.taken |= 1 << i
		a, b := r.line.part(len(r.into), i)
		if ok, err := from.Read(r.into[a:b], a); !ok || err != nil {
			return nil, err
		}
		r.copied |= 1 << i
	}
	return r.whole()
}

// whole returns the payload if all pieces of it are there.
func (r *Receiver) whole() ([]byte, error) {
	w := r.line.State.Load()
	for i := range r.line.Pieces {
		switch {
		case r.copied&(1<<i) != 0:
		case r.taken&(1<<i) != 0:
			return nil, nil
		case stateOf(w, i) == free:
			return nil, fmt.Errorf("%w: piece %d of a payload is nobody's", transport.ErrCorrupt, i)
		case stateOf(w, i) != done:
			return nil, nil
		}
	}
	return r.into, nil
}

// Withdraw takes back what is offered, and reports whether nothing is written to the target any
// more: false while the sender copies a piece. It is called again until then, and then Bring
// offers the payload anew.
func (r *Receiver) Withdraw() bool {
	if r.into == nil {
		return true
	}
	for i := range r.line.Pieces {
		if r.line.move(i, open, free) {
			r.taken |= 1 << i
		}
	}
	w := r.line.State.Load()
	for i := range r.line.Pieces {
		if s := stateOf(w, i); s == claimed || s == open {
			return false
		}
	}
	*r = Receiver{}
	return true
}
