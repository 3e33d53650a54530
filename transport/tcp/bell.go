package tcp

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/transport/internal/osys"
)

// States of a bell's word.
const (
	awake    = 0
	prepared = 1 // the owner is about to sleep or sleeps
)

// bell implements transport.Bell: the owner sleeps until one of its sockets has
// something for it, or somebody in this process rings. While it sleeps it still
// sends and receives what it can, and wakes up only for what its links may wait
// for.
type bell struct {
	osys.Yielder
	e      *Endpoint
	word   atomic.Uint32
	poller int // of all sockets, and of event
	events osys.Events
	news   bool // of the events just reported

	event osys.Event
	use   sync.Mutex // held by Sleep, so that Close keeps its descriptors meanwhile
}

// eventID is the number of the eventfd in the poller; connections count from 0.
const eventID = -1

// Ring wakes the owner if it has prepared to sleep.
func (b *bell) Ring() {
	if b.word.Load() == prepared && b.word.CompareAndSwap(prepared, awake) {
		b.event.Signal()
	}
}

// sleeping reports whether the owner sleeps or is about to.
func (b *bell) sleeping() bool { return b.word.Load() == prepared }

// Prepare announces the owner's sleep, and lets everybody know what they may
// wait for.
func (b *bell) Prepare() {
	b.event.Drain()
	b.word.Store(prepared)
	b.e.pump.turns.Add(1)
	for _, c := range b.e.conns {
		if c.pending.Load() || c.owes.Load() {
			c.flush()
			c.awaitRoom()
		}
		if c.rmu.TryLock() {
			c.await(true)
			c.rmu.Unlock()
		}
	}
}

// Cancel ends the sleep that Prepare announced. A ring that comes at the same
// time may still be in the eventfd; the next Sleep finds that it means nothing.
func (b *bell) Cancel() {
	b.word.Store(awake)
	b.event.Drain()
}

// Sleep blocks until the bell has been rung after Prepare, a socket has brought
// news, or max has passed.
func (b *bell) Sleep(max time.Duration) {
	b.use.Lock()
	defer b.use.Unlock()
	b.news = false
	deadline := time.Now().Add(max)
	for left := max; left > 0 && !b.news && b.word.Load() == prepared && !b.e.closed.Load(); left = time.Until(deadline) {
		if err := b.events.Wait(b.poller, left, b.ready); err != nil {
			break
		}
	}
	b.Cancel()
}

// ready serves one descriptor.
func (b *bell) ready(id int) {
	if id == eventID {
		b.event.Drain()
		return
	}
	c := b.e.conns[id]
	if c.pending.Load() {
		b.news = c.flush() || b.news
		c.awaitRoom()
	}
	c.rmu.Lock()
	b.news = c.receiveLocked() || b.news
	c.await(true)
	c.rmu.Unlock()
}

// look serves what is ready now, and reports whether that brought news.
func (b *bell) look() bool {
	b.use.Lock()
	defer b.use.Unlock()
	b.news = false
	if b.poller >= 0 {
		_ = b.events.Wait(b.poller, 0, b.ready)
	}
	return b.news
}

// close gives the descriptors back, when nobody sleeps any more.
func (b *bell) close() {
	b.event.Signal() // whoever sleeps sees that the endpoint is closed
	b.use.Lock()
	defer b.use.Unlock()
	_ = b.event.Close()
	if b.poller >= 0 {
		_ = osys.CloseFD(b.poller)
		b.poller = -1
	}
}
