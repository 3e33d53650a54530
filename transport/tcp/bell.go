package tcp

import (
	"sync"
	"time"

	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/shm"
)

// bell implements transport.Bell: the owner sleeps on the doorbell of its host's links and also wakes up when one of
// its sockets is ready. While it sleeps it still sends and receives where possible, and ends its sleep only for events
// that its links may wait for.
type bell struct {
	*shm.Bell
	e          *Endpoint
	poller     int // of all sockets; -1 before there is one
	events     osys.Events
	progressed bool // of the events just reported

	use   sync.Mutex // held while the poller is in use, so that Close does not close it meanwhile
	ended bool       // the poller is closed
}

// sleeping reports whether the owner sleeps or is about to.
func (b *bell) sleeping() bool { return !b.Rung() }

// Prepare announces the owner's sleep and sends to the peers all frames that they may wait for.
func (b *bell) Prepare() {
	b.Bell.Prepare()
	b.e.pump.turns.Add(1)
	for _, c := range b.e.all() {
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

// Sleep blocks until the bell has been rung after Prepare, a socket has brought
// news, or limit has passed.
func (b *bell) Sleep(limit time.Duration) { b.SleepOn(b.poller, limit, b.progress) }

// Place returns the descriptors and words that end a sleep on b.
func (b *bell) Place() osys.Place {
	p := b.Bell.Place()
	p.FDs[1] = b.poller
	return p
}

// Woken sends and receives as much as possible without blocking, and cancels b.
func (b *bell) Woken() {
	b.progress()
	b.Bell.Woken()
}

// progress sends and receives as much as possible without blocking, and reports whether that brought anything that a
// link may wait for.
func (b *bell) progress() bool {
	b.e.pump.turns.Add(1)
	b.use.Lock()
	defer b.use.Unlock()
	b.progressed = false
	for _, c := range b.e.all() { // including connections whose sockets have room again
		if c.pending.Load() {
			b.progressed = c.flush() || b.progressed
			c.awaitRoom()
		}
	}
	if b.ended {
		return true
	}
	_ = b.events.Look(b.poller, b.ready)
	return b.progressed
}

// ready receives from one socket.
func (b *bell) ready(id int) {
	c := b.e.all()[id]
	c.rmu.Lock()
	b.progressed = c.receiveLocked() || b.progressed
	c.await(true)
	c.rmu.Unlock()
}

// close closes the poller. No goroutine sleeps on it any more: the doorbell is closed.
func (b *bell) close() {
	b.use.Lock()
	defer b.use.Unlock()
	b.ended = true
	if b.poller >= 0 {
		_ = osys.CloseFD(b.poller)
	}
}
