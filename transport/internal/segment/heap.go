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
// A heap has a place in the segment, but addresses in a process only where the process uses it. For that it is cut into
// parts: the first of firstPart bytes, each other as large as all before it; the last may be cut short. A process maps
// a part as a whole, when it first takes a block there or reads a peer's, and keeps it. So no block crosses the end of
// a part.
type heap struct {
	size int

	mu   sync.Mutex
	used []span // sorted
}

// firstPart is the size of the first part of a heap, in bytes.
const firstPart = transport.HeapGrain

// partOf returns the index of the part that contains byte at of a heap.
func partOf(at int) int { return bits.Len(uint(at) / firstPart) }

// part returns the range of part i of a heap of n bytes.
func part(i, n int) span {
	if i == 0 {
		return span{0, min(firstPart, n)}
	}
	return span{firstPart << (i - 1), min(firstPart<<i, n)}
}

// span is a range of bytes of a heap.
type span struct{ from, to int }

// take finds n bytes, in pages, in the first place that has room. The caller holds
// mu.
func (h *heap) take(n int) (span, error) {
	n = roundUp(n, pageBytes)
	next := 0 // first used block that does not begin below at
	for at := 0; at < h.size; {
		end := part(partOf(at), h.size).to // of the free range from at on
		isPart := next == len(h.used) || h.used[next].from >= end
		if !isPart {
			end = h.used[next].from
		}
		if end-at >= n {
			s := span{at, at + n}
			h.used = slices.Insert(h.used, next, s)
			return s, nil
		}
		at = end
		if !isPart {
			at = h.used[next].to
			next++
		}
	}
	return span{}, fmt.Errorf("transport: no room for %d bytes of shared memory: it has %d blocks already", n, len(h.used))
}

// find returns the index of the used block that begins at from. The caller holds mu.
func (h *heap) find(from int) (i int, found bool) {
	return slices.BinarySearchFunc(h.used, from, func(u span, from int) int { return u.from - from })
}

// Alloc returns n bytes of zero memory of this rank's heap.
func (e *Endpoint) Alloc(n int) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("transport: Alloc of %d bytes", n)
	}
	h := &e.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	s, err := h.take(n)
	if err != nil {
		return nil, err
	}
	b, err := e.inHeap(e.member, s.from, s.to-s.from)
	if err == nil {
		err = e.store.Allocate(e.heapAt(e.member)+s.from, b)
	}
	if err != nil {
		i, _ := h.find(s.from)
		h.used = slices.Delete(h.used, i, i+1)
		return nil, err
	}
	return b[:n:n], nil
}

// Free releases a block that Alloc returned.
func (e *Endpoint) Free(block []byte) error {
	h := &e.heap
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
	b, err := e.inHeap(e.member, s.from, s.to-s.from)
	if err == nil {
		err = e.store.Deallocate(e.heapAt(e.member)+s.from, b)
	}
	if err == nil { // otherwise the memory may not be zero, and is lost
		h.used = slices.Delete(h.used, i, i+1)
	}
	return err
}

var errNoBlock = errors.New("transport: not a block that Alloc has given out")

// HasBlocks reports whether any block is allocated.
func (e *Endpoint) HasBlocks() bool {
	e.heap.mu.Lock()
	defer e.heap.mu.Unlock()
	return len(e.heap.used) > 0
}
