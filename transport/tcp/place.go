package tcp

import (
	"sync"
)

// place is memory of the caller for the chunks from a position of a link on: a chunk that begins to arrive afterwards
// is copied only once, by the kernel.
type place struct {
	mu    sync.Mutex
	into  []byte // nil: none
	chunk int    // bytes of each but the last
	pos   uint32 // of the first

	end uint32 // position after the last; used by the owner only
}

// of returns the place of the chunk of n bytes at a position, nil if it has none.
func (p *place) of(pos uint32, n int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := uint64(pos-p.pos) * uint64(p.chunk)
	if at >= uint64(len(p.into)) {
		return nil
	}
	rest := p.into[at:]
	if min(p.chunk, len(rest)) != n {
		return nil
	}
	return rest[:n:n]
}

// set makes into the place of the chunks from a position on.
func (p *place) set(pos uint32, into []byte, chunk int) {
	p.mu.Lock()
	p.into, p.chunk, p.pos = into, chunk, pos
	p.mu.Unlock()
}

// window returns the memory that holds the chunk.
func (a *arrival) window() []byte {
	if a.place != nil {
		return a.place
	}
	return a.buf.window(a.n)
}

// PostReceive places the next chunks in into, except those that have begun to arrive.
func (r *receiver) PostReceive(into []byte, chunk int) {
	if len(into) == 0 {
		return
	}
	r.place.end = r.pos + uint32((len(into)+chunk-1)/chunk)
	r.place.set(r.pos, into, chunk)
}

// CancelReceive makes chunks that are still to arrive go to slots again.
func (r *receiver) CancelReceive() {
	r.place.set(0, nil, 0)
	c := r.peer.conn
	c.rmu.Lock()
	c.in.unplace(r.e, r)
	c.rmu.Unlock()
}

// unplace moves the beginning of a chunk of r into a slot, and makes the rest go there. rmu of the connection is held.
func (in *reader) unplace(e *Endpoint, r *receiver) {
	if in.into != r || in.slot.place == nil {
		return
	}
	a := in.slot
	a.buf = e.buffers.take()
	window := a.buf.window(a.n)
	came := a.n - len(in.rest)
	copy(window, a.place[:came])
	a.place, in.rest = nil, window[came:]
	in.list.Reset()
}
