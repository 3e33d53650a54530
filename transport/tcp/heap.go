package tcp

import (
	"fmt"
	"math/bits"

	"github.com/treerun/treerun/transport"
)

// Alloc returns n bytes of zero memory from a 64-byte boundary on. It is
// ordinary memory.
func (e *Endpoint) Alloc(n int) ([]byte, error) {
	if n <= 0 || n > transport.MaxHeapBytes {
		return nil, fmt.Errorf("tcp: Alloc of %d bytes", n)
	}
	if e.closed.Load() {
		return nil, transport.ErrClosed
	}
	return aligned(n), nil
}

// Free does nothing: the memory goes when nobody refers to it any more.
func (e *Endpoint) Free([]byte) error { return nil }

// Shared reports that b can be lent: any memory can be sent from where it lies.
func (e *Endpoint) Shared(b []byte) bool { return len(b) > 0 }

// aligned returns n zero bytes from a 64-byte boundary on: the allocator puts
// what is a power of two, or large, at a multiple of at least that.
func aligned(n int) []byte {
	size := max(n, 64)
	if size <= 32<<10 {
		size = 1 << bits.Len(uint(size-1))
	}
	return make([]byte, size)[:n:n]
}
