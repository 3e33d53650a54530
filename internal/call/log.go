package call

// Logged is the number of its latest calls that a rank records: as many as it can be ahead of another rank.
const Logged = 256

// Log holds the latest calls of a rank by their numbers, as Words of their Headers.
type Log [Logged][3]uint64

// Put records the call of h, in place of the one Logged calls before.
func (l *Log) Put(h *Header) {
	e, w := &l[h.Seq%Logged], h.Words()
	e[0], e[1], e[2] = w[0], w[1], w[2]
}

// At returns the call with a number, and false if it is too long ago, or still to come.
func (l *Log) At(seq uint64) (ID, bool) {
	h := HeaderOf(l[seq%Logged])
	return h.ID(), h.Seq == seq && seq != 0
}
