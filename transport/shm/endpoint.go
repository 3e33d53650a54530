package shm

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/internal/segment"
)

// mapping is the segment as this process sees it. It is unmapped when the last
// endpoint, sender or receiver over it is no longer reachable; until then an
// access after Close finds private zeros and does no harm.
type mapping struct {
	b    []byte // all of it
	kept int    // bytes at its beginning that Close gives back
}

func newMapping(b []byte, kept int) *mapping {
	m := &mapping{b: b, kept: kept}
	runtime.AddCleanup(m, func(b []byte) { _ = osys.Unmap(b) }, b)
	return m
}

// inUse keeps the mappings in which Alloc has given out blocks: nobody knows how
// long the caller keeps those.
var inUse sync.Map

// endpoint implements transport.Endpoint.
type endpoint struct {
	*segment.Endpoint
	bell     transport.Bell
	bells    *doorbells // nil where ranks sleep on futexes
	mapping  *mapping
	blocks   sync.Mutex
	file     int // descriptor of the segment, -1 after Close
	watchers sync.WaitGroup
	reach    *reach          // nil where ranks cannot read each other's memory
	conns    []*net.UnixConn // one per other rank at rank 0, one to rank 0 elsewhere
	stop     chan struct{}   // closed by Close
	once     sync.Once
	closeErr error
}

// newEndpoint makes the endpoint of a rank over a checked segment.
func newEndpoint(m *segment.Map, b []byte, rank, file int, bells *doorbells) *endpoint {
	e := &endpoint{mapping: newMapping(b, m.Bytes), file: file, bells: bells, stop: make(chan struct{})}
	// Whatever can reach a bell, and that is every link, can reach e through
	// this closure, and so keeps the mapping.
	wake := func(r int) {
		word, _ := e.BellWord(r).Word()
		osys.FutexWake(word)
	}
	if bells != nil {
		wake = bells.ring
	}
	e.Endpoint = segment.New(m, b, rank, true, wake)
	e.bell = &bell{BellWord: e.BellWord(rank)}
	if bells != nil {
		e.bell = &Doorbell{BellWord: e.BellWord(rank), bells: bells}
	}
	return e
}

// Bell is this rank's own bell.
func (e *endpoint) Bell() transport.Bell { return e.bell }

// Close tells the other ranks that this one has left, and gives the memory and
// the sockets back.
func (e *endpoint) Close() error {
	e.once.Do(func() {
		e.Leave()
		close(e.stop)
		for _, c := range e.conns {
			e.closeErr = errors.Join(e.closeErr, c.Close())
		}
		e.watchers.Wait()
		if e.bells != nil {
			e.bells.close()
		}
		e.closeErr = errors.Join(e.closeErr, osys.Blank(e.mapping.b[:e.mapping.kept]), e.closeFile(), e.reach.close())
	})
	return e.closeErr
}

// closeFile closes the segment's descriptor, after which no more blocks can be
// given out or back.
func (e *endpoint) closeFile() error {
	e.blocks.Lock()
	defer e.blocks.Unlock()
	fd := e.file
	e.file = -1
	return osys.CloseFD(fd)
}

// Alloc returns memory that every rank can read.
func (e *endpoint) Alloc(n int) ([]byte, error) { return e.alloc(n, true) }

// Scratch returns memory that every rank can read, and that ends with the endpoint.
func (e *endpoint) Scratch(n int) ([]byte, error) { return e.alloc(n, false) }

func (e *endpoint) alloc(n int, stays bool) ([]byte, error) {
	e.blocks.Lock()
	defer e.blocks.Unlock()
	if e.file < 0 {
		return nil, transport.ErrClosed
	}
	b, err := e.AllocFrom(backing{e.file}, n)
	if err == nil && stays {
		inUse.Store(e.mapping, true)
	}
	return b, err
}

// Free gives back what Alloc returned.
func (e *endpoint) Free(b []byte) error {
	e.blocks.Lock()
	defer e.blocks.Unlock()
	if e.file < 0 {
		return transport.ErrClosed
	}
	err := e.FreeTo(backing{e.file}, b)
	if err == nil && !e.HasBlocks() {
		inUse.Delete(e.mapping)
	}
	return err
}

// backing is the memory file.
type backing struct{ fd int }

func (b backing) Allocate(from, n int) error   { return osys.Allocate(b.fd, from, n) }
func (b backing) Deallocate(from, n int) error { return osys.Deallocate(b.fd, from, n) }

// bell implements transport.Bell on a futex.
type bell struct {
	*segment.BellWord
	yields uint
}

// Cancel ends the sleep that Prepare announced.
func (b *bell) Cancel() { b.BellWord.Cancel() }

// Sleep blocks until the bell has been rung after Prepare, or max has passed.
func (b *bell) Sleep(max time.Duration) {
	word, prepared := b.Word()
	deadline := time.Now().Add(max)
	for !b.Rung() {
		if max <= 0 || osys.FutexWait(word, prepared, max) {
			b.Cancel()
			return
		}
		max = time.Until(deadline) // after a signal, or a wake meant for an earlier sleep
	}
}

// goschedEvery is how often Yield lets goroutines of this process run instead:
// about once in a millisecond. That costs more than it seems, as the runtime
// wakes a thread to look for more work; and where ranks share cores that
// thread takes the core from the rank that has what we wait for.
const goschedEvery = 1024

// Yield lets another process run on this core, and now and then another
// goroutine.
func (b *bell) Yield() {
	b.yields++
	if b.yields%goschedEvery == 0 {
		runtime.Gosched()
		return
	}
	osys.Yield()
}
