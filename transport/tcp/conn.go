package tcp

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
)

// errEnded is the error of a connection whose peer sends no more and has not announced that it closes.
var errEnded = errors.New("the connection ended")

// conn is one connection to a peer. Sending and receiving have a lock each, so that the rank's own goroutine and the
// pump take turns, in any order.
type conn struct {
	n    *network
	rank int // of the peer, in the network
	id   int // its number, for the poller
	wire wire
	fd   int    // -1 once closed
	name string // both addresses, for messages

	pending    atomic.Bool // there are frames to send
	owes       atomic.Bool // there are released chunks to report
	blocked    atomic.Bool // the socket had no room at the last attempt
	dead       atomic.Bool // no more frames will arrive
	connecting atomic.Bool // the socket is still to come
	stale      atomic.Bool // data of a closed set has arrived

	err  atomic.Pointer[error]            // why the connection is no longer usable
	sets atomic.Pointer[map[uint64]*peer] // the peer in the sets of links that this rank has open, by their numbers

	wmu       sync.Mutex
	outbox    outbox
	room      bool // the poller watches for room
	out       osys.Vectors
	discarded bool // nothing more can be sent

	rmu sync.Mutex
	in  reader
	low int // bytes that must arrive before a wait for the socket ends; 0 means 1

	round atomic.Uint32 // how often the socket was polled
	empty atomic.Uint32 // number of polls in a row that brought nothing
}

// enqueue puts a data frame behind those that wait. wmu is held.
func (c *conn) enqueue(t item) {
	if c.discarded {
		t.done()
		return
	}
	c.outbox.push(t)
	c.pending.Store(true)
}

// flush sends waiting frames as far as there is room. It reports whether that freed anything that a sender of endpoint
// by may wait for, and wakes up the owners of other endpoints. by is nil for none.
func (c *conn) flush(by *Endpoint) bool {
	if !c.pending.Load() && !c.owes.Load() {
		return false
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	return c.flushLocked(by)
}

func (c *conn) flushLocked(by *Endpoint) (news bool) {
	whole := true
	for !c.discarded {
		if c.owes.Load() {
			c.owes.Store(false)
			c.outbox.creditReleased()
		}
		c.outbox.gather(&c.out)
		want := c.out.Bytes()
		n, err := 0, error(nil)
		if want > 0 {
			n, err = c.wire.send(&c.out)
		}
		if err == nil {
			whole, err = c.wire.push()
		}
		if err != nil && !errors.Is(err, osys.ErrAgain) {
			c.fail(fmt.Errorf("sending: %w", err))
			c.discard()
			c.ring(by)
			return true
		}
		if n > 0 {
			news = c.outbox.markSent(n, by) || news
		}
		c.blocked.Store(n < want || !whole)
		if n < want || !whole || want == 0 {
			break
		}
	}
	if c.room && !c.blocked.Load() {
		c.watchRoom(false)
	}
	c.out.Reset()
	c.pending.Store(!c.discarded && (!c.outbox.empty() || !whole))
	return news
}

// creditAfter is the number of polls of the sockets in a row that brought nothing after which released slots are
// reported to the peer: some dozen microseconds, in which there is usually a frame to which the report can be added.
const creditAfter = 48

// poll reads the socket, unless that was done once since the calling link, whose round it is, last called look: so
// links that share a socket cost one system call per turn of a waiting loop. A link that has not called it for longer
// begins a round of its own.
func (c *conn) poll(round *uint32, by *Endpoint) {
	now := c.round.Load()
	if now-*round == 1 {
		*round = now
		return
	}
	*round = c.round.Add(1)
	c.n.pump.turns.Add(1)
	news := c.pending.Load() && c.flush(by)
	if c.receive(by) || news {
		c.empty.Store(0)
	} else if c.owes.Load() && c.empty.Add(1) >= creditAfter {
		c.empty.Store(0)
		c.flush(by)
	}
}

// flushPosted sends waiting frames as far as there is room, unless there was none the last time.
func (c *conn) flushPosted(by *Endpoint) {
	if c.pending.Load() {
		c.wmu.Lock()
		c.flushUnlessBlocked(by)
		c.wmu.Unlock()
	}
}

// flushUnlessBlocked is flush without another attempt where there was no room the last time: the poller reports room.
// wmu is held.
func (c *conn) flushUnlessBlocked(by *Endpoint) {
	if !c.blocked.Load() {
		c.flushLocked(by)
	}
}

// watchRoom changes whether the poller watches for room. wmu is held.
func (c *conn) watchRoom(room bool) {
	c.room = room
	if c.fd >= 0 && !c.dead.Load() {
		_ = osys.WatchRoom(c.n.poller, c.fd, c.id, room)
	}
}

// awaitRoom has the poller watch for room if there was none.
func (c *conn) awaitRoom() {
	if !c.blocked.Load() {
		return
	}
	c.wmu.Lock()
	if c.blocked.Load() && !c.room && !c.discarded {
		c.watchRoom(true)
	}
	c.wmu.Unlock()
}

// discard drops all frames that wait to be sent: the peer will not read them. wmu is held.
func (c *conn) discard() {
	c.discarded = true
	c.blocked.Store(false)
	c.out.Reset()
	c.outbox.clear()
	c.owes.Store(false)
	c.pending.Store(false)
}

// control puts a control frame of a set before the data frames that wait, and sends as much as there is room for. A
// connection that comes late begins with the news of the open sets; only those of one that closes are kept for it.
func (c *conn) control(set uint64, k kind, body []byte, closing bool) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if c.discarded || c.connecting.Load() && !closing {
		return
	}
	c.outbox.ctl = appendControl(c.outbox.ctl, set, k, body)
	c.pending.Store(true)
	c.flushLocked(nil)
}

// leave removes an endpoint from the connection, and sends the notice that this rank has closed it behind all of its
// frames.
func (c *conn) leave(e *Endpoint) {
	e.net.adding.Lock()
	sets := maps.Clone(*c.sets.Load())
	delete(sets, e.number)
	c.sets.Store(&sets)
	e.net.adding.Unlock()
	c.notifyClosed(e.number)
}

// notifyClosed sends the notice that this rank has closed a set, behind all frames that wait.
func (c *conn) notifyClosed(set uint64) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if !c.discarded {
		c.enqueue(item{head: appendControl(nil, set, kindClosed, nil)})
		c.flushUnlessBlocked(nil)
	}
}

// ring wakes up the owners of all endpoints on the connection but by.
func (c *conn) ring(by *Endpoint) {
	for _, p := range *c.sets.Load() {
		if p.e != by {
			p.e.bell.Ring()
		}
	}
}

// fail makes err the reason why the connection is no longer usable, unless it has one already or the peer has announced
// that it closes all sets. It never blocks.
func (c *conn) fail(err error) {
	if c.serves() {
		err = fmt.Errorf("connection %s: %w", c.name, netconn.Stalled(netconn.JumboSocket(c.fd), err))
		c.err.CompareAndSwap(nil, &err)
	}
	c.n.pump.kick()
}

// serves reports whether there is a set that neither end has closed.
func (c *conn) serves() bool {
	for _, p := range *c.sets.Load() {
		if !p.closed.Load() {
			return true
		}
	}
	return false
}

// broken returns the error of a connection on which the peer violated the protocol.
func (c *conn) broken() error {
	if p := c.err.Load(); p != nil && errors.Is(*p, transport.ErrCorrupt) {
		return *p
	}
	return nil
}

// close closes the descriptor.
func (c *conn) close() error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.rmu.Lock() // a holder of rmu never waits for wmu
	defer c.rmu.Unlock()
	c.discard()
	c.dead.Store(true)
	if c.fd < 0 {
		return nil
	}
	err := osys.CloseFD(c.fd)
	c.fd = -1
	return err
}
