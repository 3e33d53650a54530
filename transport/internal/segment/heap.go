package segment

import (
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
