package call

import "sync/atomic"

// SharedLog is a Log in memory that several ranks share. Only the rank whose calls it holds writes, any rank may read:
// a call that is overwritten meanwhile is not found.
type SharedLog []atomic.Uint64

// A call in a SharedLog is wordsPerCall words: its number at the end and, while the others are written, 0 at the
// beginning.
const wordsPerCall = 5

// SharedLogBytes is the size of a SharedLog, whose length is an eighth of it.
const SharedLogBytes = Logged * wordsPerCall * 8

func (l SharedLog) words(seq uint64) []atomic.Uint64 {
	i := seq % Logged * wordsPerCall
	return l[i : i+wordsPerCall]
}

// Put records a call. It has no Chain: ranks compare those of the calls that they publish.
func (l SharedLog) Put(id ID) {
	h, w := id.Header(), l.words(id.Seq)
	w[0].Store(0)
	w[1].Store(h.Count)
	w[2].Store(h.What & (1<<32 - 1))
	w[3].Store(h.What >> 32)
	w[4].Store(id.Seq)
	w[0].Store(id.Seq)
}

// At returns the call with a number, false when it is not there.
func (l SharedLog) At(seq uint64) (id ID, ok bool) {
	w := l.words(seq)
	if w[4].Load() != seq || w[0].Load() != seq {
		return id, false
	}
	id = HeaderOf([3]uint64{seq, w[1].Load(), w[2].Load() | w[3].Load()<<32}).ID()
	return id, w[0].Load() == seq && seq != 0
}

// Differs compares the calls numbered from to upTo with those of another rank, which records a call and then announces
// it: latest is the number of the last. It returns the first that is not the same, and the number of the first that the
// other rank has still to enter. A call that has a number and was never recorded is none on devices: other has then
// nothing but the number.
func (l SharedLog) Differs(theirs SharedLog, from, upTo uint64, latest func() uint64) (mine, other ID, differ bool,
	next uint64) {
	announced := latest() // read first: a call with a number by then is there, unless another call has its place
	from = max(from, upTo-min(upTo, Logged)+1)
	for seq := from; seq <= upTo; seq++ {
		a, ok := l.At(seq)
		b, too := theirs.At(seq)
		switch {
		case ok && too && a != b:
			return a, b, true, seq
		case too:
		case seq > announced:
			return mine, other, false, seq
		case ok && latest()-seq < Logged-1: // else another call has its place
			return a, ID{Seq: seq}, true, seq
		}
	}
	return mine, other, false, upTo + 1
}
