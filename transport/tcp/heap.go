package tcp

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/treerun/treerun/transport"
)

// heap knows which blocks Alloc has given out.
type heap struct {
	mu   sync.Mutex
	used map[*byte]bool
}

// Alloc returns n bytes of zero memory from a 64-byte boundary on. It is
// ordinary memory.
func (e *Endpoint) Alloc(n int) ([]byte, error) {
	if n <= 0 || n > transport.MaxHeapBytes {
		return nil, fmt.Errorf("tcp: Alloc of %d bytes", n)
	}
	if e.closed.Load() {
		return nil, transport.ErrClosed
	}
	b := aligned(n)
	e.heap.mu.Lock()
	defer e.heap.mu.Unlock()
	if e.heap.used == nil {
		e.heap.used = make(map[*byte]bool)
	}
	e.heap.used[&b[0]] = true
	return b, nil
}

// Free gives back what Alloc returned.
func (e *Endpoint) Free(b []byte) error {
	if e.closed.Load() {
		return transport.ErrClosed
	}
	e.heap.mu.Lock()
	defer e.heap.mu.Unlock()
	if len(b) == 0 || !e.heap.used[&b[0]] {
		return errors.New("tcp: not a block that Alloc has given out")
	}
	delete(e.heap.used, &b[0])
	return nil
}

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
