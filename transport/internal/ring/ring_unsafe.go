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

// Words returns two words of the line at position pos for what both ends do with a payload
// in the sender's own memory: the ring does not look at them. Before the payload is
// published they are the sender's.
func (g *geometry) Words(pos uint32) (*atomic.Uint32, *atomic.Uint64) {
	p := unsafe.Pointer(&g.line(pos)[0])
	return (*atomic.Uint32)(unsafe.Add(p, offState)), (*atomic.Uint64)(unsafe.Add(p, offTarget))
}
