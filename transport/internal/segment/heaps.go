package segment

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// heaps are the heaps of all members, as far as they are mapped here, and the blocks of this rank's own.
type heaps struct {
	m      *Map
	store  Store
	member int  // index of this rank
	own    heap // of this rank

	mapping sync.Mutex                 // serializes Map
	parts   [][]atomic.Pointer[[]byte] // mapped ones, by member and part; nil where ranks have no heaps
}

// open prepares the heaps of a segment, of which none is mapped yet.
func (h *heaps) open(m *Map, member int, store Store) {
	h.m, h.member, h.store, h.own.size = m, member, store, m.Layout.HeapBytes
	if h.own.size == 0 {
		return
	}
	h.parts = make([][]atomic.Pointer[[]byte], m.Layout.MemberCount())
	for i := range h.parts {
		h.parts[i] = make([]atomic.Pointer[[]byte], partOf(h.own.size-1)+1)
	}
}

// begin returns where a member's heap begins in the segment.
func (h *heaps) begin(member int) int { return h.m.Heaps + member*h.own.size }

// Alloc returns n bytes of zero memory of this rank's heap.
func (h *heaps) Alloc(n int) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("transport: Alloc of %d bytes", n)
	}
	h.own.mu.Lock()
	defer h.own.mu.Unlock()
	s, err := h.own.take(n)
	if err != nil {
		return nil, err
	}
	b, err := h.window(h.member, s.from, s.to-s.from)
	if err == nil {
		err = h.store.Allocate(h.begin(h.member)+s.from, b)
	}
	if err != nil {
		i, _ := h.own.find(s.from)
		h.own.used = slices.Delete(h.own.used, i, i+1)
		return nil, err
	}
	return b[:n:n], nil
}

// Free releases a block that Alloc returned.
func (h *heaps) Free(block []byte) error {
	h.own.mu.Lock()
	defer h.own.mu.Unlock()
	at, ok := h.Offset(block)
	if !ok {
		return errNoBlock
	}
	i, found := h.own.find(at)
	if !found {
		return errNoBlock
	}
	s := h.own.used[i]
	b, err := h.window(h.member, s.from, s.to-s.from)
	if err == nil {
		err = h.store.Deallocate(h.begin(h.member)+s.from, b)
	}
	if err == nil { // otherwise the memory may not be zero, and is lost
		h.own.used = slices.Delete(h.own.used, i, i+1)
	}
	return err
}

var errNoBlock = errors.New("transport: not a block that Alloc has given out")

// HasBlocks reports whether any block is allocated.
func (h *heaps) HasBlocks() bool {
	h.own.mu.Lock()
	defer h.own.mu.Unlock()
	return len(h.own.used) > 0
}

// holds reports whether n bytes at byte at of a heap, n > 0, can be in one block.
func (h *heaps) holds(at, n int) bool {
	return at >= 0 && at < h.own.size && n > 0 && n <= part(partOf(at), h.own.size).to-at
}

// window returns n bytes at byte at of a member's heap, and maps the part where they are, unless it is mapped.
// Precondition: holds(at, n).
func (h *heaps) window(member, at, n int) ([]byte, error) {
	i := partOf(at)
	s := part(i, h.own.size)
	p := h.parts[member][i].Load()
	if p == nil {
		var err error
		if p, err = h.mapPart(member, i, s); err != nil {
			return nil, err
		}
	}
	at -= s.from
	return (*p)[at : at+n : at+n], nil
}

func (h *heaps) mapPart(member, i int, s span) (*[]byte, error) {
	h.mapping.Lock()
	defer h.mapping.Unlock()
	p := &h.parts[member][i]
	if b := p.Load(); b != nil {
		return b, nil
	}
	b, err := h.store.Map(h.begin(member)+s.from, s.to-s.from)
	if err != nil {
		return nil, fmt.Errorf("transport: %d MiB of the memory that rank %d shares: %w", (s.to-s.from)>>20,
			h.m.Layout.Member(member), err)
	}
	p.Store(&b)
	return &b, nil
}

// Shared reports whether b lies in this rank's heap.
func (h *heaps) Shared(b []byte) bool {
	_, ok := h.Offset(b)
	return ok
}

// Offset returns the offset of b in this rank's heap, as far as that is mapped.
func (h *heaps) Offset(b []byte) (at int, ok bool) {
	if len(b) == 0 || h.parts == nil {
		return 0, false
	}
	for i := range h.parts[h.member] {
		p := h.parts[h.member][i].Load()
		if p == nil {
			continue
		}
		if at := offsetIn(*p, b); at >= 0 && at+len(b) <= len(*p) {
			return part(i, h.own.size).from + at, true
		}
	}
	return 0, false
}

// View returns a part of rank r's heap, of one block.
func (h *heaps) View(r, at, n int) ([]byte, error) {
	member := -1
	if r >= 0 && r < h.m.Layout.Size {
		member = h.m.Layout.MemberIndex(r)
	}
	switch {
	case member >= 0 && n == 0 && at >= 0 && at <= h.own.size:
		return []byte{}, nil
	case member < 0 || !h.holds(at, n):
		return nil, fmt.Errorf("transport: no block of rank %d's shared memory, of %d bytes, has %d at %d", r,
			h.own.size, n, at)
	}
	return h.window(member, at, n)
}
