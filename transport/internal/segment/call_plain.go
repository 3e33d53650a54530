//go:build amd64 && !race

package segment

// writeCall stores a copy of a call with plain stores. On amd64 they become
// visible in order, between the atomic store that announced the call before
// and the one that announces this call, past neither of which the compiler
// moves them. Three atomic stores would cost a locked exchange each, on the
// path of every collective call.
func writeCall(b []byte, w [callWords]uint64) { *callAt(b) = w }
