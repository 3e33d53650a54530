//go:build !explore

package ring

import (
	"sync/atomic"
	"unsafe"

	"github.com/treerun/treerun/internal/call"
)

// All accesses of the two ends to the memory that they share are made by the functions of this file, and by
// publishWord. Tests with the tag explore have other versions, which let the other end run before each access
// (explore_test.go).

// loadWord loads the 4 bytes of b at off. The offset is a constant multiple of
// 4 within a line and b is aligned.
func loadWord(b []byte, off int) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[off : off+4][0])))
}

// storeWord stores the 4 bytes of b at off.
func storeWord(b []byte, off int, v uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[off : off+4][0])), v)
}

// putHeader writes length and header to a control line; the publication word
// orders them.
func putHeader(line []byte, n uint32, h *call.Header) {
	p := unsafe.Pointer(&line[:lineBytes][0])
	*(*uint32)(unsafe.Add(p, offLength)) = n
	*(*call.Header)(unsafe.Add(p, offHeader)) = *h
}

// putLength writes the length of a control line alone.
func putLength(line []byte, n uint32) {
	*(*uint32)(unsafe.Add(unsafe.Pointer(&line[:lineBytes][0]), offLength)) = n
}

// putPlace writes the place of a payload to a control line.
func putPlace(line []byte, at uint64) {
	*(*uint64)(unsafe.Add(unsafe.Pointer(&line[:lineBytes][0]), offInline)) = at
}

// getPlace reads what putPlace wrote, exactly once.
func getPlace(line []byte) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(unsafe.Pointer(&line[:lineBytes][0]), offInline)))
}

// getHeader copies the header of a control line to h and returns the length, each read exactly once: the length that is
// checked is the length that is used.
func getHeader(line []byte, h *call.Header) uint32 {
	p := unsafe.Pointer(&line[:lineBytes][0])
	*h = *(*call.Header)(unsafe.Add(p, offHeader))
	return atomic.LoadUint32((*uint32)(unsafe.Add(p, offLength)))
}
