package segment

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/treerun/treerun/transport"
)

// heap is the memory of one rank behind the links, from which it takes blocks
// that its peers read in place. Blocks are whole pages, so that they can be
// given back to the system one by one.
//
// A heap has a place in the segment, but addresses in a process only where one
// has to do with it. For that it is cut into parts, of firstPart bytes, and then
// each as large as all before it; the last may be cut short. A process maps a
// part as a whole, when it first takes a block there or looks at a peer's, and
// keeps it. So no block crosses the end of a part.
type heap struct {
	member int // whose it is

	mu   sync.Mutex
	free []span // sorted, no two adjacent in one part
	used []span // sorted
}

// firstPart is the size of the first part of a heap, in bytes.
const firstPart = transport.HeapGrain

// partOf returns in which part of a heap byte at of it is.
func partOf(at int) int { return bits.Len(uint(at) / firstPart) }

// part returns where part i of a heap of n bytes is.
func part(i, n int) span {
	if i == 0 {
		return span{0, min(firstPart, n)}
	}
	return span{firstPart << (i - 1), min(firstPart<<i, n)}
}

func newHeap(m *Map, rank int) *heap {
	h := &heap{member: m.Layout.MemberIndex(rank)}
	if n := m.Layout.HeapBytes; n > 0 {
		for i := range partOf(n-1) + 1 {
			h.free = append(h.free, part(i, n))
		}
	}
	return h
}

// span is a range of bytes of a heap.
type span struct{ from, to int }

// take finds n bytes, in pages, in the first place that has room. The caller holds
// mu.
func (h *heap) take(n int) (span, error) {
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

// find returns which used block begins at from. The caller holds mu.
func (h *heap) find(from int) (i int, found bool) {
	return slices.BinarySearchFunc(h.used, from, func(u span, from int) int { return u.from - from })
}

// give takes back a used block. The caller holds mu.
func (h *heap) give(i int) {
	s := h.used[i]
	h.used = slices.Delete(h.used, i, i+1)
	at, _ := slices.BinarySearchFunc(h.free, s.from, func(f span, from int) int { return f.from - from })
	h.free = slices.Insert(h.free, at, s)
	if at+1 < len(h.free) && adjacent(h.free[at], h.free[at+1]) {
		h.free[at].to = h.free[at+1].to
		h.free = slices.Delete(h.free, at+1, at+2)
	}
	if at > 0 && adjacent(h.free[at-1], h.free[at]) {
		h.free[at-1].to = h.free[at].to
		h.free = slices.Delete(h.free, at, at+1)
	}
}

// adjacent reports whether b begins where a ends, in the same part.
func adjacent(a, b span) bool { return a.to == b.from && partOf(a.from) == partOf(b.from) }

// Alloc returns n bytes of zero memory of this rank's heap.
func (e *Endpoint) Alloc(n int) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("transport: Alloc of %d bytes", n)
	}
	h := e.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	s, err := h.take(n)
	if err != nil {
		return nil, err
	}
	b, err := e.view.bytes(h.member, s.from, s.to-s.from)
	if err == nil {
		err = e.view.store.Allocate(e.view.heap(h.member)+s.from, b)
	}
	if err != nil {
		i, _ := h.find(s.from)
		h.give(i)
		return nil, err
	}
	return b[:n:n], nil
}

// Free takes back a block that Alloc has given out.
func (e *Endpoint) Free(block []byte) error {
	h := e.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := e.Offset(block)
	if !ok {
		return errNoBlock
	}
	i, found := h.find(at)
	if !found {
		return errNoBlock
	}
	s := h.used[i]
	b, err := e.view.bytes(h.member, s.from, s.to-s.from)
	if err == nil {
		err = e.view.store.Deallocate(e.view.heap(h.member)+s.from, b)
	}
	if err == nil { // else the memory may not be zero, and is nobody's
		h.give(i)
	}
	return err
}

var errNoBlock = errors.New("transport: not a block that Alloc has given out")

// HasBlocks reports whether any block is given out.
func (e *Endpoint) HasBlocks() bool {
	e.heap.mu.Lock()
	defer e.heap.mu.Unlock()
	return len(e.heap.used) > 0
}
