package tcp

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// A buffer has room before the payload for the beginning of its frame, and
// behind it for the end, so that all is one piece of memory.
const (
	frontBytes = 64
	backBytes  = 64
)

// buffer holds one chunk.
type buffer struct {
	mem  []byte       // frontBytes + SlotBytes + backBytes
	uses atomic.Int32 // how many need it still
}

// window returns n bytes for the payload.
func (b *buffer) window(n int) []byte { return b.mem[frontBytes : frontBytes+n : frontBytes+n] }

// buffers are those of one endpoint, for all its links: what was given back last
// is given out first, and still in the core's cache. As many are made as are ever
// in use at once, which is most often a few; credits bound it by the slots of all
// links.
type buffers struct {
	slotBytes int

	mu   sync.Mutex
	free []*buffer
}

// take returns a buffer for one user.
func (p *buffers) take() *buffer {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		b.uses.Store(1)
		return b
	}
	p.mu.Unlock()
	b := &buffer{mem: aligned(frontBytes + p.slotBytes + backBytes)}
	b.uses.Store(1)
	return b
}

// drop says that one user of b is done with it.
func (p *buffers) drop(b *buffer) {
	if b.uses.Add(-1) > 0 {
		return
	}
	p.mu.Lock()
	p.free = append(p.free, b)
	p.mu.Unlock()
}

// aligned returns n zero bytes from a 64-byte boundary on: the allocator puts
// what is a power of two, or large, at a multiple of at least that.
func aligned(n int) []byte {
	size := max(n, 64)
	if size <= 32<<10 {
		size = 1 << bits.Len(uint(size-1))
	}
	return make([]byte, size)[:n:n]
}
