// Package mem is not for users: it is the transport between goroutines of one process: every
// rank of the set is an Endpoint of the same process, over heap memory, where the race
// detector and the garbage collector see everything.
//
// It runs the same FIFOs and the same board as package shm and differs only in
// how a rank sleeps, so that collectives can be tested without processes. It
// is not a fast path for anything. Package collective and tests import it.
package mem

import (
	"runtime"
	"sync"
	"time"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/segment"
)

// New returns the endpoints of all ranks of a layout, by rank. The caller
// closes each of them. An error means that the layout cannot be used.
func New(layout transport.Layout) ([]transport.Endpoint, error) {
	m, err := segment.NewMap(layout)
	if err != nil {
		return nil, err
	}
	b, s := segment.Heap(m.Bytes), &store{parts: make(map[int][]byte)}
	tokens := make([]chan struct{}, layout.Size)
	for r := range tokens {
		tokens[r] = make(chan struct{}, 1)
	}
	wake := func(r int) { tokens[r] <- struct{}{} }
	reach := &reach{slots: layout.Slots, windows: make(map[transport.Link][][]byte)}
	all := make([]transport.Endpoint, layout.Size)
	for r := range all {
		e := &endpoint{Endpoint: segment.New(m, b, r, false, wake, s)}
		e.bell = bell{BellWord: e.BellWord(r), tokens: tokens[r]}
		e.SetReach(reach, "")
		all[r] = e
	}
	return all, nil
}

// endpoint implements transport.Endpoint.
type endpoint struct {
	*segment.Endpoint
	bell bell
}

// Bell is this rank's own bell.
func (e *endpoint) Bell() transport.Bell { return &e.bell }

// Close tells the other ranks that this one has left.
func (e *endpoint) Close() error {
	e.Leave()
	return nil
}

// bell implements transport.Bell. Whoever changes the word from prepared to
// awake on the owner's behalf puts exactly one token into the channel, and the
// owner takes it before it prepares again; so there is always room for it.
type bell struct {
	*segment.BellWord
	tokens chan struct{}
	armed  bool        // the owner has prepared and has not seen the end of it
	timer  *time.Timer // reused
}

// Prepare announces the owner's sleep.
func (b *bell) Prepare() {
	if !b.armed {
		b.armed = true
		b.BellWord.Prepare()
	}
}

// Cancel ends the sleep that Prepare announced.
func (b *bell) Cancel() {
	if b.armed && !b.BellWord.Cancel() {
		<-b.tokens
	}
	b.armed = false
}

// Sleep blocks until the bell has been rung after Prepare, or max has passed.
func (b *bell) Sleep(max time.Duration) {
	if !b.armed {
		return
	}
	if b.timer == nil {
		b.timer = time.NewTimer(max)
	} else {
		b.timer.Reset(max)
	}
	select {
	case <-b.tokens:
		b.timer.Stop()
		b.armed = false
	case <-b.timer.C:
		b.Cancel()
	}
}

// Yield lets another goroutine run.
func (b *bell) Yield() { runtime.Gosched() }

// store is the links and heaps of all ranks, of which parts are there that somebody has mapped.
type store struct {
	mu    sync.Mutex
	parts map[int][]byte // by offset
}

// Map returns a part of them, the same to all endpoints.
func (s *store) Map(from, n int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts[from] == nil {
		s.parts[from] = segment.Heap(n)
	}
	return s.parts[from], nil
}

// Allocate has nothing to do: what is mapped is there, and zero.
func (*store) Allocate(int, []byte) error { return nil }

// Deallocate makes b zero again.
func (*store) Deallocate(_ int, b []byte) error {
	clear(b)
	return nil
}
