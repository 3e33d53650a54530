package ring

// A payload in the sender's own memory is copied by the receiver, and by the sender
// too if it is willing, as it has nothing better to do: the receiver offers to be
// helped, and then both claim piece after piece of the payload until none is left. The
// line of the slot has
//
//	40  uint64  the receiver's address, to which the payload goes
//	48  uint32  pieces claimed; the highest bit is set once there is an offer, the next
//	            one when the sender is willing
//	52  uint32  pieces that the sender is done with
//
// The address and both counts are the peer's word: an end claims no piece that the
// payload does not have.

const (
	offTarget = 40
	offClaims = 48
	offHelped = 52

	offered = 1 << 31 // in the claims
	willing = 1 << 30 // in the claims
)

// Willing reports whether the sender of the payload of the last TryPeek, which lies in
// its own memory, may help to copy it.
func (r *Rx) Willing() bool { return loadWord(r.line(r.pos), offClaims)&willing != 0 }

// Offer says where the payload of the last TryPeek is to go, and that the sender may
// bring pieces of it there.
func (r *Rx) Offer(target uint64) {
	line := r.line(r.pos)
	putTarget(line, target)
	storeWord(line, offClaims, offered|willing)
}

// Claim takes the next of so many pieces for this end, false when all are taken.
// Precondition: Offer was called for it.
func (r *Rx) Claim(pieces int) (piece int, ok bool) { return claim(r.line(r.pos), pieces) }

// Helped returns how many pieces the sender is done with.
func (r *Rx) Helped() int { return int(loadWord(r.line(r.pos), offHelped)) }

// Claim is Rx.Claim for the payload at position pos, which the receiver has not
// released; false, too, while there is no offer. The target is where the whole
// payload goes.
func (t *Tx) Claim(pos uint32, pieces int) (target uint64, piece int, ok bool) {
	line := t.line(pos)
	if w := loadWord(line, offClaims); w&offered == 0 || int(w&^(offered|willing)) >= pieces {
		return 0, 0, false
	}
	piece, ok = claim(line, pieces)
	return getTarget(line), piece, ok
}

// Done says that this end is done with a piece that it claimed at position pos.
func (t *Tx) Done(pos uint32) { addWord(t.line(pos), offHelped) }

// Oldest returns the position of the oldest slot that the receiver has not released,
// that of the next one when there is none.
func (t *Tx) Oldest() uint32 {
	if head := loadWord(t.ctl, 0); t.pos-head <= t.slots {
		return head
	}
	return t.pos // TryReserve will say that the peer is out of its mind
}

func claim(line []byte, pieces int) (int, bool) {
	n := int((addWord(line, offClaims) - 1) &^ (offered | willing))
	return n, n < pieces
}
