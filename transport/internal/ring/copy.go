package ring

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/transport"
)

// Both ends of a link may copy one payload, which lies in the sender's own memory, to the receiver's target: each
// copies a part. The protocol is a state machine over two words of the payload's line, with no clock and no system
// call; package segment gives it the means to copy. Its tests explore every interleaving of two ends, at the level of
// single loads and stores.
//
// The payload has pieces. A state of two bits per piece, all in one word, determines which end copies it:
//
//	free     not offered, or the receiver has taken it
//	open     offered: the first end to take it copies it
//	claimed  the sender copies it
//	done     the sender has copied it
//
//	free -> open          receiver: Bring, with the target, for all pieces at once
//	open -> free          receiver: Bring takes a piece to copy it; Withdraw takes the rest
//	open -> claimed       sender: Help
//	claimed -> done       sender: Help, after the copy
//	claimed -> open       sender: Help, when there is a fault, or the copy failed
//
// Every change is a compare-and-swap, so exactly one end copies a piece. The payload is complete when each piece is
// done or was copied by the receiver, which only the receiver counts, after its copy. The target is fixed when the
// pieces are offered.
//
// A receiver that the system does not let read the sender's memory withdraws its offer, and makes the sender pass the
// payload through the slot's window, part by part. The word is then the number of a part, with two marks:
//
//	passing          the receiver requests the part: Ask, Bring
//	passing, filled  the part is in the window: Pass, or PostPart for the first one

// Word and Address are memory that both ends share: *atomic.Uint32 and *atomic.Uint64.
type (
	Word interface {
		Load() uint32
		Store(uint32)
		CompareAndSwap(old, next uint32) bool
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
	passing = 1 << 30 // the payload goes through the window
	filled  = 1 << 29 // the part is in the window
)

// ErrRefused is the error of a Reader that the system does not let read the sender's memory.
var ErrRefused = errors.New("the memory of the sender cannot be read")

// pieces is the number of pieces of a payload: each end copies a half, or one end copies both while the other is busy.
// More and smaller pieces are slower, as each costs about 1.5 us: two ranks take 15 us for 512 KiB in pieces of 128
// KiB, 24 in pieces of 64 and 28 in pieces of 32, and 25 where one end copies all. Pieces begin at pages.
const (
	pieces = 2
	grain  = 4096
)

// Line is one payload as both ends see it. Words that the peer writes to it are checked: a piece is never outside the
// payload or the target.
type Line struct {
	State  Word
	Target Address // where the payload goes, in the receiver's memory
	Pieces int     // at most 14
	Grain  int     // pieces begin at multiples of it
	Part   int     // bytes of the window
}

// Post prepares the line for a new payload. Sender only, before it publishes the payload.
func (l *Line) Post(helps bool) {
	w := uint32(0)
	if helps {
		w = willing
	}
	l.State.Store(w)
}

// PostPart is Post for a payload whose first part the sender has put into the window.
func (l *Line) PostPart() { l.State.Store(passing | filled) }

// Passes reports whether the payload goes through the window.
func (l *Line) Passes() bool { return l.State.Load()&passing != 0 }

// Pass puts the part that the receiver has requested into the window, and reports whether it has requested one. Sender
// only. Precondition: that of Help.
func (l *Line) Pass(payload []byte, to Writer) bool {
	w := l.State.Load()
	at := int(w&^(passing|filled)) * l.Part
	if w&passing == 0 || w&filled != 0 || at >= len(payload) {
		return false
	}
	to.Fill(payload[at:min(at+l.Part, len(payload))])
	l.State.CompareAndSwap(w, w|filled) // unless the receiver has begun again
	return true
}

// MayHelp reports whether the sender may help to copy the payload.
func (l *Line) MayHelp() bool { return l.State.Load()&willing != 0 }

func stateOf(w uint32, piece int) uint32 {
	if w&passing != 0 {
		return free
	}
	return w >> (stateBits * piece) & stateMask
}

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

// part returns the range of the n bytes that belongs to a piece.
func (l *Line) part(n, piece int) (from, to int) {
	size := (n + l.Pieces - 1) / l.Pieces
	size = (size + l.Grain - 1) / l.Grain * l.Grain
	return min(piece*size, n), min(piece*size+size, n)
}

// Writer copies to the receiver's memory.
type Writer interface {
	// Aborted reports whether there is a fault: the receiver may have failed, and no more bytes may be written.
	Aborted() bool

	// Write copies b to an address of the receiver's memory. It returns false if the receiver has ended, or cannot
	// be written to.
	Write(target uint64, b []byte) bool

	// Fill copies b to the window of the payload's slot.
	Fill(b []byte)
}

// Help copies a piece of the payload, if one is offered, and reports whether it did. Sender
// only. Precondition: the receiver has not released the payload.
func (l *Line) Help(payload []byte, to Writer) bool {
	for i := l.Pieces - 1; i >= 0; i-- {
		if !l.move(i, open, claimed) {
			continue
		}
		a, b := l.part(len(payload), i)
		if to.Aborted() || !to.Write(l.Target.Load()+uint64(a), payload[a:b]) {
			l.move(i, claimed, open)
			return false
		}
		l.move(i, claimed, done)
		return true
	}
	return false
}

// Reader copies from the sender's memory.
type Reader interface {
	// Read copies the bytes of the payload from byte at of it on to b. It returns false without an error if the
	// sender has ended, or there is a fault, and b is not filled. After ErrRefused the payload passes through the
	// window.
	Read(b []byte, at int) (bool, error)

	// Take fills b from the window of the payload's slot.
	Take(b []byte)
}

// Receiver is the receiving end of one payload. The zero value has none. One goroutine at a
// time may use it.
type Receiver struct {
	line   Line
	into   []byte // nil while no memory is offered
	taken  uint32 // pieces that the sender cannot claim, a bit for each
	copied uint32 // pieces among taken whose bytes are in into

	refused bool   // the sender's memory cannot be read
	passes  bool   // the payload goes through the window
	parts   uint32 // number of parts that have passed
}

// Target returns the memory that the payload goes to, nil when none is offered.
func (r *Receiver) Target() []byte { return r.into }

// Bring copies the pieces that the sender does not copy. It returns the payload when it is complete; nil while the
// sender is copying, and forever once a Read has failed. The first call offers the payload, to be copied to into, which
// lies at target for the sender. Later calls return the into of the first, whatever theirs is: the sender may have
// copied to it. Precondition: into is not empty.
func (r *Receiver) Bring(l Line, into []byte, target uint64, from Reader) ([]byte, error) {
	switch {
	case r.into == nil && l.Passes():
		r.Ask(l, into)
	case r.into == nil:
		*r = Receiver{line: l, into: into}
		l.Target.Store(target)
		w := uint32(willing)
		for i := range l.Pieces {
			w |= open << (stateBits * i)
		}
		l.State.Store(w)
	}
	if r.passes {
		return r.takePart(from), nil
	}
	for i := 0; i < r.line.Pieces && !r.refused; i++ {
		if r.taken&(1<<i) != 0 || !r.line.move(i, open, free) {
			continue
		}
		r.taken |= 1 << i
		a, b := r.line.part(len(r.into), i)
		ok, err := from.Read(r.into[a:b], a)
		switch r.refused = errors.Is(err, ErrRefused); {
		case r.refused:
		case !ok || err != nil:
			return nil, err
		default:
			r.copied |= 1 << i
		}
	}
	if !r.refused {
		return r.whole()
	}
	if r.takeBack() {
		r.Ask(r.line, r.into)
	}
	return nil, nil
}

// Ask makes the sender pass the payload through the window, for Bring to take it to into. Precondition: no memory is
// offered.
func (r *Receiver) Ask(l Line, into []byte) {
	*r = Receiver{line: l, into: into, passes: true}
	if l.State.Load() != passing|filled { // otherwise the first part is there
		l.State.Store(passing)
	}
}

// takePart takes the next part from the window, and returns the payload if that was the last one.
func (r *Receiver) takePart(from Reader) []byte {
	if at := int(r.parts) * r.line.Part; at < len(r.into) {
		if r.line.State.Load() != passing|filled|r.parts {
			return nil
		}
		from.Take(r.into[at:min(at+r.line.Part, len(r.into))])
		r.parts++
		if at+r.line.Part < len(r.into) {
			r.line.State.Store(passing | r.parts)
			return nil
		}
	}
	return r.into
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
			return nil, fmt.Errorf("%w: no rank copies piece %d of a payload", transport.ErrCorrupt, i)
		case stateOf(w, i) != done:
			return nil, nil
		}
	}
	return r.into, nil
}

// Withdraw withdraws the offer, and reports whether the sender writes to the target no more: false while it copies a
// piece. The caller repeats it until then, and then Bring offers the payload again.
func (r *Receiver) Withdraw() bool {
	back := r.into == nil || r.passes || r.takeBack()
	if back {
		*r = Receiver{}
	}
	return back
}

// takeBack withdraws the pieces that are open, and reports whether the sender copies none.
func (r *Receiver) takeBack() bool {
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
	return true
}
