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
	heaps int // where the heaps begin

	mu    sync.Mutex
	file  int      // descriptor of the segment, -1 after Close
	fixed [][]byte // the board, and links
	parts *[][]byte
}

func newMapping(board []byte, heaps, file int) *mapping {
	m := &mapping{heaps: heaps, file: file, fixed: [][]byte{board}, parts: &[][]byte{board}}
	runtime.AddCleanup(m, func(all *[][]byte) {
		for _, b := range *all {
			_ = osys.Unmap(b)
		}
	}, m.parts)
	return m
}

// withFile calls f with the descriptor of the segment.
func (m *mapping) withFile(f func(fd int) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file < 0 {
		return transport.ErrClosed
	}
	return f(m.file)
}

// Map maps a link, or a part of the heaps.
func (m *mapping) Map(from, n int) (b []byte, err error) {
	err = m.withFile(func(fd int) error {
		if b, err = osys.Map(fd, from, n); err == nil {
			*m.parts = append(*m.parts, b)
			if from < m.heaps {
				m.fixed = append(m.fixed, b)
			}
		}
		return err
	})
	return b, err
}

// Allocate puts memory behind a block.
func (m *mapping) Allocate(from int, b []byte) error {
	return m.withFile(func(fd int) error { return osys.Allocate(fd, from, len(b)) })
}

// Deallocate takes the memory of a block away.
func (m *mapping) Deallocate(from int, b []byte) error {
	return m.withFile(func(fd int) error { return osys.Deallocate(fd, from, len(b)) })
}

// close unmaps board and links and closes the descriptor. No mapping and no allocation or release of a block is
// possible any more.
func (m *mapping) close() error {
	return m.withFile(func(fd int) (err error) {
		m.file = -1
		for _, b := range m.fixed {
			err = errors.Join(err, osys.Blank(b))
		}
		return errors.Join(err, osys.CloseFD(fd))
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
	blocks  sync.Mutex   // guards the entry of the mapping in inUse
	reach   *reach       // nil if ranks cannot read each other's memory
	close   func() error // once
}

// newEndpoint makes the endpoint of a rank over a checked segment.
func newEndpoint(m *segment.Map, b []byte, rank, file int, bells *doorbells, y osys.Yielder) *Endpoint {
	e := &Endpoint{mapping: newMapping(b, m.Heaps, file)}
	wake := func(r int) {
		word, _ := e.BellWord(r).Word()
		osys.FutexWake(word)
	}
	if bells != nil {
		wake = bells.ring
	}
	e.Endpoint = segment.New(m, b, rank, wake, e.mapping) // every link keeps the mapping this way
	e.bell = &Bell{BellWord: e.BellWord(rank), Yielder: y, bells: bells}
	e.close = sync.OnceValue(func() error {
		e.Leave()
		bells.close()
		return errors.Join(e.mapping.close(), e.reach.close())
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
