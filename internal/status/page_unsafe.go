// Package status is the memory in which a rank shows its calls and waits to the process that has started it: a page of
// fixed size, which the rank writes by plain stores, and which can be read while the rank is stopped or blocked, and
// after its death. For each communicator the page has the latest calls and the counters of all calls. The waits are one
// message, which is written when they change. Ranks without such memory keep the same in their own.
package status

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/treerun/treerun/internal/call"
)

// maxComms is the number of open communicators that a page shows. Of further ones it has the number only.
const maxComms = 64

// maxWaits is the maximum size of the encoded waits.
const maxWaits = 8 << 10

// header is what a page begins with.
type header struct {
	epoch      atomic.Int64 // of the rank's world
	rank, size atomic.Int32 // in that epoch
	phase      atomic.Uint32
	pid        atomic.Uint32
	hidden     atomic.Int32  // number of open communicators without a place
	waitsSeq   atomic.Uint32 // odd while waits are written
	waitsBytes atomic.Uint32
	_          atomic.Uint32
	phaseSince atomic.Int64 // Unix time in nanoseconds
	_          [16]byte
	used       [maxComms]atomic.Uint32 // 1: the place has a communicator
	waits      [maxWaits]byte
}

// Calls are the calls of one communicator. Only the goroutine that has claimed the communicator writes, and Now is of
// use to other processes only.
type Calls struct {
	Now  int32 // 1 + the row of the call that has claimed the communicator; 0: none that counts
	size int32
	name [56]byte // followed by zeros, cut where it is longer
	Rows [Rows]Row
	Log  call.Log
}

// memory is a page. All fields have the same place on all processors.
type memory struct {
	header
	comms [maxComms]Calls
}

// Bytes is the size of a page.
const Bytes = int(unsafe.Sizeof(memory{}))

// Page is the page of this process. The nil *Page shows nothing. Its methods may be called concurrently.
type Page struct {
	mu sync.Mutex
	m  *memory
}

// NewPage returns the page in b, which has Bytes zeros, is aligned to 8 bytes, and is never released.
func NewPage(b []byte) *Page { return &Page{m: (*memory)(unsafe.Pointer(&b[:Bytes][0]))} }

// Phase is what a rank does.
type Phase uint32

// The phases of a rank.
const (
	Starting Phase = iota // it makes its world, if the page has one
	Running
	Renewing // between two epochs
	Closed   // it has closed its world
)

// String returns a word for tables.
func (p Phase) String() string {
	switch p {
	case Starting:
		return "starting"
	case Running:
		return "running"
	case Renewing:
		return "renewing"
	case Closed:
		return "closed"
	}
	return "invalid"
}

// SetPhase shows the phase of the rank.
func (p *Page) SetPhase(phase Phase) {
	if p != nil {
		p.m.phase.Store(uint32(phase))
		p.m.phaseSince.Store(time.Now().UnixNano())
	}
}

// SetWorld shows the world that process pid is about to have: its epoch, and its rank of size ranks.
func (p *Page) SetWorld(pid, epoch, rank, size int) {
	if p == nil {
		return
	}
	p.m.pid.Store(uint32(pid))
	p.m.epoch.Store(int64(epoch))
	p.m.rank.Store(int32(rank))
	p.m.size.Store(int32(size))
	p.SetPhase(Starting)
}

// SetWaits shows the encoded waits of the rank. It reports whether there is room for them.
func (p *Page) SetWaits(b []byte) bool {
	if p == nil {
		return true
	}
	if len(b) > maxWaits {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.m.waitsSeq.Add(1)
	p.m.waitsBytes.Store(uint32(len(b)))
	copy(p.m.waits[:], b)
	p.m.waitsSeq.Add(1)
	return true
}

// Open returns the Calls of a new communicator of size ranks. Where the page has no place for it, or there is no page,
// they are in memory of their own. Call done when no call will be made any more: the Calls belong to another
// communicator then.
func (p *Page) Open(name string, size int) (c *Calls, done func()) {
	if p == nil {
		return new(Calls), func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.m.used {
		if p.m.used[i].Load() == 0 {
			c = &p.m.comms[i]
			*c = Calls{size: int32(size)}
			copy(c.name[:], name)
			p.m.used[i].Store(1)
			return c, func() { p.m.used[i].Store(0) }
		}
	}
	p.m.hidden.Add(1)
	return new(Calls), func() { p.m.hidden.Add(-1) }
}
