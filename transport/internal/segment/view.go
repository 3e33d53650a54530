package segment

import (
	"fmt"
	"sync/atomic"

	"github.com/treerun/treerun/transport"
)

// heapParts holds the mapped parts of the heaps of all members: by member and part.
type heapParts [][]atomic.Pointer[[]byte]

func newHeapParts(l *transport.Layout) heapParts {
	if l.HeapBytes == 0 {
		return nil
	}
	p := make(heapParts, l.MemberCount())
	for i := range p {
		p[i] = make([]atomic.Pointer[[]byte], partOf(l.HeapBytes-1)+1)
	}
	return p
}

// heapAt returns where a member's heap begins in the segment.
func (e *Endpoint) heapAt(member int) int { return e.m.Heaps + member*e.m.Layout.HeapBytes }

// holds reports whether n bytes at byte at of a heap, n > 0, can be in one block.
func (e *Endpoint) holds(at, n int) bool {
	size := e.m.Layout.HeapBytes
	return at >= 0 && at < size && n > 0 && n <= part(partOf(at), size).to-at
}

// inHeap returns n bytes at byte at of a member's heap, and maps the part where they are,
// unless it is mapped. Precondition: holds(at, n).
func (e *Endpoint) inHeap(member, at, n int) ([]byte, error) {
	i := partOf(at)
	s := part(i, e.m.Layout.HeapBytes)
	p := e.parts[member][i].Load()
	if p == nil {
		var err error
		if p, err = e.mapPart(member, i, s); err != nil {
			return nil, err
		}
	}
	at -= s.from
	return (*p)[at : at+n : at+n], nil
}

func (e *Endpoint) mapPart(member, i int, s span) (*[]byte, error) {
	e.mapping.Lock()
	defer e.mapping.Unlock()
	p := &e.parts[member][i]
	if b := p.Load(); b != nil {
		return b, nil
	}
	b, err := e.store.Map(e.heapAt(member)+s.from, s.to-s.from)
	if err != nil {
		return nil, fmt.Errorf("transport: %d MiB of the memory that rank %d shares: %w", (s.to-s.from)>>20,
			e.m.Layout.Member(member), err)
	}
	p.Store(&b)
	return &b, nil
}

// Shared reports whether b lies in this rank's heap.
func (e *Endpoint) Shared(b []byte) bool {
	_, ok := e.Offset(b)
	return ok
}

// Offset returns the offset of b in this rank's heap, as far as that is mapped.
func (e *Endpoint) Offset(b []byte) (at int, ok bool) {
	if len(b) == 0 || e.parts == nil {
		return 0, false
	}
	for i := range e.parts[e.member] {
		p := e.parts[e.member][i].Load()
		if p == nil {
			continue
		}
		if at := offsetIn(*p, b); at >= 0 && at+len(b) <= len(*p) {
			return part(i, e.m.Layout.HeapBytes).from + at, true
		}
	}
	return 0, false
}

// View returns a part of rank r's heap, of one block.
func (e *Endpoint) View(r, at, n int) ([]byte, error) {
	member := -1
	if r >= 0 && r < e.m.Layout.Size {
		member = e.m.Layout.MemberIndex(r)
	}
	switch {
	case member >= 0 && n == 0 && at >= 0 && at <= e.m.Layout.HeapBytes:
		return []byte{}, nil
	case member < 0 || !e.holds(at, n):
		return nil, fmt.Errorf("transport: no block of rank %d's shared memory, of %d bytes, has %d at %d", r,
			e.m.Layout.HeapBytes, n, at)
	}
	return e.inHeap(member, at, n)
}

// heapOffset returns the offset in the segment of b, which lies in this rank's heap.
func (e *Endpoint) heapOffset(b []byte) int {
	at, _ := e.Offset(b)
	return e.heapAt(e.member) + at
}
