package call

// Logged is the number of its latest calls that a rank records: as many as it can be ahead of another rank.
const Logged = 256

// Log holds the latest calls of a rank by their numbers.
type Log [Logged]ID

// Put records a call, in place of the one Logged calls before.
func (l *Log) Put(id *ID) { l[id.Seq%Logged] = *id }

// At returns the call with a number, and false if it is too long ago, or still to come.
func (l *Log) At(seq uint64) (ID, bool) {
	id := l[seq%Logged]
	return id, id.Seq == seq && seq != 0
}
