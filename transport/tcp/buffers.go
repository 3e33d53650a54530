package tcp

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// A buffer has room before the payload for the beginning of its frame, and behind it for the end, so that the frame is
// one piece of memory.
const (
	frontBytes = 64
	backBytes  = 64
)

// buffer holds one chunk.
type buffer struct {
	mem  []byte       // frontBytes + SlotBytes + backBytes
	uses atomic.Int32 // number of users that still need it
}

// window returns n bytes for the payload.
func (b *buffer) window(n int) []byte { return b.mem[frontBytes : frontBytes+n : frontBytes+n] }

// buffers is the pool of buffers of one endpoint, for all its links: the buffer returned last is the first to be taken,
// while it is still in the core's cache. The pool grows to the largest number ever in use at once, which is usually
// small; credits limit it to the number of slots of all links.
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

// drop releases one use of b.
func (p *buffers) drop(b *buffer) {
	if b.uses.Add(-1) > 0 {
		return
	}
	p.mu.Lock()
	p.free = append(p.free, b)
	p.mu.Unlock()
}

// aligned returns n zero bytes that begin at a 64-byte boundary: the allocator aligns sizes that are powers of two, and
// large sizes, to at least that.
func aligned(n int) []byte {
	size := max(n, 64)
	if size <= 32<<10 {
		size = 1 << bits.Len(uint(size-1))
	}
	return make([]byte, size)[:n:n]
}
