package ring

import (
	"sync/atomic"
	"unsafe"

	"github.com/treerun/treerun/internal/call"
)

// The header travels in the machine's own byte order and layout: both ends are
// on one host and run the same program. These constants fail to compile when
// the header stops fitting between the length and the inline payload.
const (
	_ = uint(offInline - offHeader - unsafe.Sizeof(call.Header{}))
	_ = uint(8 - unsafe.Alignof(call.Header{}))
)

func aligned(b []byte, to uintptr) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%to == 0
}

// PayloadLine returns the line at position pos, of a payload in the sender's own memory, for the protocol by which both
// ends copy it. Before the payload is published it belongs to the sender.
func (g *geometry) PayloadLine(pos uint32) Line {
	p := unsafe.Pointer(&g.line(pos)[0])
	return Line{State: (*atomic.Uint32)(unsafe.Add(p, offState)), Target: (*atomic.Uint64)(unsafe.Add(p, offTarget)),
		Pieces: pieces, Grain: grain, Part: g.slotBytes}
}
