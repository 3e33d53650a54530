package segment

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// heap is the memory of one rank behind the links, from which it takes blocks
// that its peers read in place. Blocks are whole pages, so that they can be
// given back to the system one by one.
type heap struct {
	mu   sync.Mutex
	free []span // sorted, no two adjacent
	used []span // sorted
}

// span is a range of bytes of the segment.
type span struct{ from, to int }

func newHeap(m *Map, rank int) heap {
	if m.Layout.HeapBytes == 0 {
		return heap{}
	}
	from := m.Bytes + m.Layout.MemberIndex(rank)*m.Layout.HeapBytes
	return heap{free: []span{{from, from + m.Layout.HeapBytes}}}
}

// take finds n bytes, in pages, in the first place that has room.
func (h *heap) take(n int) (span, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = roundUp(n, pageBytes)
	for i, f := range h.free {
		if f.to-f.from < n {
			continue
		}
		s := span{f.from, f.from + n}
		if h.free[i].from = s.to; h.free[i].from == f.to {
			h.free = slices.Delete(h.free, i, i+1)
		}
		at, _ := slices.BinarySearchFunc(h.used, s.from, func(u span, from int) int { return u.from - from })
		h.used = slices.Insert(h.used, at, s)
		return s, nil
	}
	return span{}, fmt.Errorf("transport: no room for %d bytes of shared memory: it has %d blocks already", n, len(h.used))
}

// give takes back the block that begins at from.
func (h *heap) give(from int) (span, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, found := slices.BinarySearchFunc(h.used, from, func(u span, from int) int { return u.from - from })
	if !found {
		return span{}, errors.New("transport: not a block that Alloc has given out")
	}
	s := h.used[i]
	h.used = slices.Delete(h.used, i, i+1)
	at, _ := slices.BinarySearchFunc(h.free, s.from, func(f span, from int) int { return f.from - from })
	h.free = slices.Insert(h.free, at, s)
	if at+1 < len(h.free) && h.free[at].to == h.free[at+1].from {
		h.free[at].to = h.free[at+1].to
		h.free = slices.Delete(h.free, at+1, at+2)
	}
	if at > 0 && h.free[at-1].to == h.free[at].from {
		h.free[at-1].to = h.free[at].to
		h.free = slices.Delete(h.free, at, at+1)
	}
	return s, nil
}

// Backing gives ranges of the segment memory, and takes it away again.
type Backing interface {
	Allocate(from, n int) error
	Deallocate(from, n int) error
}

// AllocFrom returns n bytes of zero memory of this rank's heap, which b puts
// there.
func (e *Endpoint) AllocFrom(b Backing, n int) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("transport: Alloc of %d bytes", n)
	}
	s, err := e.heap.take(n)
	if err != nil {
		return nil, err
	}
	if err := b.Allocate(s.from, s.to-s.from); err != nil {
		_, _ = e.heap.give(s.from)
		return nil, err
	}
	return e.mem[s.from : s.from+n : s.from+n], nil
}

// FreeTo takes back a block and gives its memory to b.
func (e *Endpoint) FreeTo(b Backing, block []byte) error {
	if len(block) == 0 || !e.Shared(block) {
		return errors.New("transport: not a block that Alloc has given out")
	}
	s, err := e.heap.give(offsetIn(e.mem, block))
	if err != nil {
		return err
	}
	return b.Deallocate(s.from, s.to-s.from)
}

// Shared reports whether b lies in this rank's heap.
func (e *Endpoint) Shared(b []byte) bool {
	if e.m.Layout.HeapBytes == 0 || len(b) == 0 {
		return false
	}
	at := offsetIn(e.mem, b)
	from := e.heapOf(e.rank)
	return at >= from && at+len(b) <= from+e.m.Layout.HeapBytes
}

// Place returns where b lies in this rank's heap.
func (e *Endpoint) Place(b []byte) (at int, ok bool) {
	if !e.Shared(b) {
		return 0, false
	}
	return offsetIn(e.mem, b) - e.heapOf(e.rank), true
}

// View returns a part of rank r's heap.
func (e *Endpoint) View(r, at, n int) ([]byte, error) {
	size := e.m.Layout.HeapBytes
	if r < 0 || r >= e.m.Layout.Size || e.m.Layout.MemberIndex(r) < 0 || at < 0 || n < 0 || n > size || at > size-n {
		return nil, fmt.Errorf("transport: %d bytes at %d of rank %d's shared memory, which has %d", n, at, r, size)
	}
	from := e.heapOf(r) + at
	return e.mem[from : from+n : from+n], nil
}

// heapOf returns where rank r's heap begins in the segment.
func (e *Endpoint) heapOf(r int) int {
	return e.m.Bytes + e.m.Layout.MemberIndex(r)*e.m.Layout.HeapBytes
}

// HasBlocks reports whether any block is given out.
func (e *Endpoint) HasBlocks() bool {
	e.heap.mu.Lock()
	defer e.heap.mu.Unlock()
	return len(e.heap.used) > 0
}

// Zero clears n bytes from byte from of the segment.
func (e *Endpoint) Zero(from, n int) { clear(e.mem[from : from+n]) }
