package call

// Logged is the number of its latest calls that a rank records: as many as it can be ahead of another rank.
const Logged = 256

// Log holds the latest calls of a rank by their numbers, as their Headers.
type Log [Logged]Header

// Put records the call of h, in place of the one Logged calls before.
func (l *Log) Put(h *Header) { l[h.Seq%Logged] = *h }

// At returns the call with a number, and false if it is too long ago, or still to come.
func (l *Log) At(seq uint64) (ID, bool) {
	h := &l[seq%Logged]
	return h.ID(), h.Seq == seq && seq != 0
}
