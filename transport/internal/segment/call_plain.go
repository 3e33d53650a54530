//go:build amd64 && !race

package segment

// writeCall stores a copy of a call with plain stores. On amd64 they become
// visible in the order of the program, between the announcement of the call
// before and that of this one. Atomic stores would cost a locked exchange each,
// on the path of every collective call.
func writeCall(b []byte, w [callWords]uint64) { *callAt(b) = w }

// announce stores the number of publications after the copy.
//
//go:noinline
func announce(b []byte, k uint32) { *word(b, 0) = k }
