package ring

import (
	"sync/atomic"
	"unsafe"

	"github.com/treerun/treerun/transport"
)

// The header travels in the machine's own byte order and layout: both ends are
// on one host and run the same program. These constants fail to compile when
// the header stops fitting between the length and the inline payload.
const (
	_ = uint(offInline - offHeader - unsafe.Sizeof(transport.Header{}))
	_ = uint(8 - unsafe.Alignof(transport.Header{}))
)

func aligned(b []byte, to uintptr) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%to == 0
}

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
func putHeader(line []byte, n uint32, h *transport.Header) {
	p := unsafe.Pointer(&line[:lineBytes][0])
	*(*uint32)(unsafe.Add(p, offLength)) = n
	*(*transport.Header)(unsafe.Add(p, offHeader)) = *h
}

// putLength writes the length of a control line alone.
func putLength(line []byte, n uint32) {
	*(*uint32)(unsafe.Add(unsafe.Pointer(&line[:lineBytes][0]), offLength)) = n
}

// putPlace writes where a payload lies to a control line.
func putPlace(line []byte, at uint64) {
	*(*uint64)(unsafe.Add(unsafe.Pointer(&line[:lineBytes][0]), offInline)) = at
}

// getPlace reads what putPlace wrote, exactly once.
func getPlace(line []byte) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(unsafe.Pointer(&line[:lineBytes][0]), offInline)))
}

// getHeader copies the header of a control line to h and returns the length,
// each read exactly once: the
// length that is checked is the length that is used.
func getHeader(line []byte, h *transport.Header) uint32 {
	p := unsafe.Pointer(&line[:lineBytes][0])
	*h = *(*transport.Header)(unsafe.Add(p, offHeader))
	return atomic.LoadUint32((*uint32)(unsafe.Add(p, offLength)))
}

// Words returns two words of the line at position pos for what both ends do with a payload
// in the sender's own memory: the ring does not look at them. Before the payload is
// published they are the sender's.
func (g *geometry) Words(pos uint32) (*atomic.Uint32, *atomic.Uint64) {
	p := unsafe.Pointer(&g.line(pos)[0])
	return (*atomic.Uint32)(unsafe.Add(p, offState)), (*atomic.Uint64)(unsafe.Add(p, offTarget))
}
