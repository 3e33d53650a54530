package tcp

import (
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
	events     osys.Events
	progressed bool // of the events just reported
	crowd      crowd
}

// sleeping reports whether the owner sleeps or is about to.
func (b *bell) sleeping() bool { return !b.Rung() }

// Prepare announces the owner's sleep and sends to the peers all frames that they may wait for.
func (b *bell) Prepare() {
	b.Bell.Prepare()
	b.e.net.pump.turns.Add(1)
	for _, p := range b.e.all() {
		c := p.conn
		if c.pending.Load() || c.owes.Load() {
			c.flush(b.e)
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
func (b *bell) Sleep(limit time.Duration) { b.SleepOn(b.e.net.poller, limit, b.progress) }

// Place returns the descriptors and words that end a sleep on b.
func (b *bell) Place() osys.Place {
	p := b.Bell.Place()
	p.FDs[1] = b.e.net.poller
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
	n := b.e.net
	n.pump.turns.Add(1)
	n.use.Lock()
	defer n.use.Unlock()
	b.progressed = false
	for _, c := range n.all() { // including connections whose sockets have room again
		if c.pending.Load() {
			b.progressed = c.flush(b.e) || b.progressed
			c.awaitRoom()
		}
	}
	if n.ended {
		return true
	}
	_ = b.events.Look(n.poller, b.ready)
	return b.progressed
}

// ready receives from one socket.
func (b *bell) ready(id int) {
	c := b.e.net.all()[id]
	c.rmu.Lock()
	b.progressed = c.receiveLocked(b.e) || b.progressed
	c.await(true)
	c.rmu.Unlock()
}
