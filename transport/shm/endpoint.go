package shm

import (
	"errors"
	"runtime"
	"sync"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/internal/segment"
)

// mapping is the segment as this process sees it: the board, and links and parts of the heaps as they are needed. It
// implements segment.Store. It is unmapped when the last endpoint, sender or receiver over it is no longer reachable;
// until then an access after Close finds private zeros, or the contents of a heap, and does no harm.
type mapping struct {
	m     *segment.Map
	rooms *rooms // of the file
	room  int    // where the segment is

	mu     sync.Mutex
	closed bool
	fixed  [][]byte // the board, and links
	parts  *[][]byte
}

func newMapping(m *segment.Map, board []byte, in *rooms, room int) *mapping {
	a := &mapping{m: m, rooms: in, room: room, fixed: [][]byte{board}, parts: &[][]byte{board}}
	runtime.AddCleanup(a, func(all *[][]byte) {
		for _, b := range *all {
			_ = osys.Unmap(b)
		}
	}, a.parts)
	return a
}

// withFile calls f with the descriptor of the file, in which the segment begins at byte at.
func (a *mapping) withFile(f func(fd, at int) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return transport.ErrClosed
	}
	return f(a.rooms.fd, a.rooms.m.Room(a.room))
}

// Map maps a link, or a part of the heaps.
func (a *mapping) Map(from, n int) (b []byte, err error) {
	err = a.withFile(func(fd, at int) error {
		if b, err = osys.Map(fd, at+from, n); err == nil {
			*a.parts = append(*a.parts, b)
			if from < a.m.Heaps {
				a.fixed = append(a.fixed, b)
			}
		}
		return err
	})
	return b, err
}

// Allocate puts memory behind a block.
func (a *mapping) Allocate(from int, b []byte) error {
	return a.withFile(func(fd, at int) error { return osys.Allocate(fd, at+from, len(b)) })
}

// Deallocate takes the memory of a block away.
func (a *mapping) Deallocate(from int, b []byte) error {
	return a.withFile(func(fd, at int) error { return osys.Deallocate(fd, at+from, len(b)) })
}

// close unmaps board and links and leaves the room. No mapping and no allocation or release of a block is possible any
// more.
func (a *mapping) close() error {
	return a.withFile(func(int, int) (err error) {
		a.closed = true
		for _, b := range a.fixed {
			err = errors.Join(err, osys.Blank(b))
		}
		_, kept := inUse.Load(a)
		return errors.Join(err, a.rooms.leave(a.room, a.m.Layout.MemberCount(), kept || err != nil))
	})
}

// inUse keeps the mappings in which Alloc has allocated blocks: there is no way to know how long the caller keeps
// those.
var inUse sync.Map

// Endpoint implements transport.Endpoint.
type Endpoint struct {
	*segment.Endpoint
	bell    *Bell
	mapping *mapping
	blocks  sync.Mutex // guards the entry of the mapping in inUse
	reach   *reach     // nil if ranks cannot read each other's memory, for the reason noReach
	noReach string
	close   func() error // once
}

// newEndpoint makes the endpoint of a rank over a checked segment, of which only the board is mapped.
func newEndpoint(a *mapping, rank int, bells *doorbells, r *reach, noReach string, y osys.Yielder) *Endpoint {
	e := &Endpoint{mapping: a, reach: r, noReach: noReach}
	wake := func(r int) {
		word, _ := e.BellWord(r).Word()
		osys.FutexWake(word)
	}
	if bells != nil {
		wake = bells.ring
	}
	e.Endpoint = segment.New(a.m, a.fixed[0], rank, wake, a) // every link keeps the mapping this way
	if r != nil {
		e.SetReach(r, "")
	} else {
		e.SetReach(nil, noReach)
	}
	e.bell = &Bell{BellWord: e.BellWord(rank), Yielder: y, bells: bells}
	e.close = sync.OnceValue(func() error {
		e.Leave()
		bells.close()
		e.blocks.Lock() // no Alloc follows
		defer e.blocks.Unlock()
		return errors.Join(a.close(), e.reach.close())
	})
	return e
}

// Bell returns this rank's own bell.
func (e *Endpoint) Bell() transport.Bell { return e.bell }

// Close marks this rank as closed for the other ranks, and releases the memory.
func (e *Endpoint) Close() error { return e.close() }

// Alloc returns memory that every rank can read.
func (e *Endpoint) Alloc(n int) ([]byte, error) {
	e.blocks.Lock()
	defer e.blocks.Unlock()
	b, err := e.Scratch(n)
	if err == nil {
		inUse.Store(e.mapping, true)
	}
	return b, err
}

// Scratch returns memory that every rank can read, and that is released with the endpoint.
func (e *Endpoint) Scratch(n int) ([]byte, error) {
	if e.Closed() {
		return nil, transport.ErrClosed
	}
	return e.Endpoint.Alloc(n)
}

// Free releases memory that Alloc returned.
func (e *Endpoint) Free(b []byte) error {
	e.blocks.Lock()
	defer e.blocks.Unlock()
	if e.Closed() {
		return transport.ErrClosed
	}
	err := e.Endpoint.Free(b)
	if err == nil && !e.HasBlocks() {
		inUse.Delete(e.mapping)
	}
	return err
}
