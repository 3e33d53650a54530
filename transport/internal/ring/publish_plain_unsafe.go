//go:build amd64 && !race && !explore

package ring

import "unsafe"

// publishWord stores the 4 bytes of b at off after everything that was stored before. On amd64 a plain store does that:
// stores become visible in order, and the compiler does not move them past each other. Later loads may be executed
// before the store is visible, which a locked exchange, as storeWord's, would prevent at the cost of waiting for all
// stores.
//
//go:noinline
func publishWord(b []byte, off int, v uint32) {
	*(*uint32)(unsafe.Pointer(&b[off : off+4][0])) = v
}
