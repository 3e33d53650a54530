package tcp

import (
	"sync"
	"time"

	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/shm"
)

// bell implements transport.Bell: the owner sleeps on the doorbell of its host's links, and
// wakes up too when one of its sockets has something for it. While it sleeps it still sends
// and receives what it can, and ends its sleep only for what its links may wait for.
type bell struct {
	*shm.Bell
	e      *Endpoint
	poller int // of all sockets; -1 before there is one
	events osys.Events
	news   bool // of the events just reported

	use   sync.Mutex // held while the poller is asked, so that Close keeps it meanwhile
	ended bool       // the poller is given back
}

// sleeping reports whether the owner sleeps or is about to.
func (b *bell) sleeping() bool { return !b.Rung() }

// Prepare announces the owner's sleep, and lets everybody know what they may
// wait for.
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
// news, or max has passed.
func (b *bell) Sleep(max time.Duration) { b.SleepOn(b.poller, max, b.progress) }

// Place returns what ends a sleep on b.
func (b *bell) Place() osys.Place {
	p := b.Bell.Place()
	p.FDs[1] = b.poller
	return p
}

// Woken sends and receives what can be at once, and cancels b.
func (b *bell) Woken() {
	b.progress()
	b.Bell.Woken()
}

// progress sends and receives what can be at once, without blocking, and reports
// whether that brought anything that a link may wait for.
func (b *bell) progress() bool {
	b.e.pump.turns.Add(1)
	b.use.Lock()
	defer b.use.Unlock()
	b.news = false
	for _, c := range b.e.all() { // also what has room again
		if c.pending.Load() {
			b.news = c.flush() || b.news
			c.awaitRoom()
		}
	}
	if b.ended {
		return true
	}
	_ = b.events.Look(b.poller, b.ready)
	return b.news
}

// ready receives from one socket.
func (b *bell) ready(id int) {
	c := b.e.all()[id]
	c.rmu.Lock()
	b.news = c.receiveLocked() || b.news
	c.await(true)
	c.rmu.Unlock()
}

// close gives the poller back. Nobody sleeps on it any more: the doorbell is closed.
func (b *bell) close() {
	b.use.Lock()
	defer b.use.Unlock()
	b.ended = true
	if b.poller >= 0 {
		_ = osys.CloseFD(b.poller)
	}
}
