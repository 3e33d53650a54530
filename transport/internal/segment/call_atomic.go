//go:build !amd64 || race

package segment

import "sync/atomic"

// writeCall stores a copy of a call so that no word of it becomes visible
// before the announcement of the call before.
func writeCall(b []byte, w [callWords]uint64) {
	p := callAt(b)
	for i := range w {
		atomic.StoreUint64(&p[i], w[i])
	}
}

// announce stores the number of publications after the copy.
func announce(b []byte, k uint32) { storeWord(b, 0, k) }
