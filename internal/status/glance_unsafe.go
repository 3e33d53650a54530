package status

import (
	"fmt"
	"io"
	"sync"
	"unsafe"
)

// Glance is the part of a page that changes with calls and waits.
type Glance struct {
	Phase Phase
	Since int64  // as in Rank
	Size  int    // of the world; 0 before there is one
	Waits uint32 // changes with the waits
	Calls int64  // the number of calls of open communicators so far
	In    bool   // one of them is in a call
}

// scratch is memory for ReadGlance: that of a call would be allocated for each page, every second.
var scratch struct {
	sync.Mutex
	header
	Calls
}

// ReadGlance reads a page as Read does, but only a small part of it.
func ReadGlance(page io.ReaderAt) (Glance, error) {
	scratch.Lock()
	defer scratch.Unlock()
	h, c := &scratch.header, &scratch.Calls
	if err := readAt(page, unsafe.Pointer(h), unsafe.Offsetof(h.waits), 0); err != nil {
		return Glance{}, err
	}
	g := Glance{Phase: Phase(h.phase.Load()), Since: h.phaseSince.Load(), Size: int(h.size.Load()),
		Waits: h.waitsSeq.Load()}
	if g.Size < 0 {
		return Glance{}, fmt.Errorf("world of %d ranks: no page of a rank", g.Size)
	}
	for i := range h.used {
		if h.used[i].Load() == 0 {
			continue
		}
		at := unsafe.Offsetof(memory{}.comms) + uintptr(i)*unsafe.Sizeof(*c)
		if err := readAt(page, unsafe.Pointer(c), unsafe.Offsetof(c.Log), at); err != nil {
			return Glance{}, err
		}
		g.In = g.In || c.Now > 0
		for r := range c.Rows {
			g.Calls += c.Rows[r].Calls
		}
	}
	return g, nil
}

// ReadWaits returns the encoded waits of a page, nil where there are none, or the rank changes them at this moment.
func ReadWaits(page io.ReaderAt) ([]byte, error) {
	var h header
	if err := readAt(page, unsafe.Pointer(&h), unsafe.Sizeof(h), 0); err != nil {
		return nil, err
	}
	n, again := h.waitsBytes.Load(), header{}
	if err := readAt(page, unsafe.Pointer(&again), unsafe.Offsetof(again.used), 0); err != nil {
		return nil, err
	}
	if seq := h.waitsSeq.Load(); n > maxWaits || seq%2 == 1 || seq != again.waitsSeq.Load() {
		return nil, nil
	}
	return h.waits[:n:n], nil
}
