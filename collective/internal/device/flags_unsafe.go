package device

import (
	"sync/atomic"
	"unsafe"
)

// word is the flag at byte at of a segment, which is mapped memory, aligned to
// pages.
func word(segment []byte, at int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&segment[at : at+4][0]))
}
