// Package door guards listening TCP ports that anybody can reach. It lets
// every caller prove who he is, in a bounded time and among a bounded number
// of others, so that strangers, however many and however slow, hold up nobody;
// and it says once per source that there were some.
//
// It knows nothing of ranks or of how they prove themselves. Whoever of ours
// listens on a network may import it.
package door

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Config says whom a Door lets in, and how long that may take.
type Config struct {
	// Prove finds out who is at the other end of c, which has a deadline. It
	// returns what to do with him, which then owns c, has no deadline and may
	// take its time; or why he is refused, and then the Door closes c. It is
	// called concurrently.
	Prove func(c *net.TCPConn) (enter func(), err error)

	// Refused is told of callers who were refused, but not of those who had to
	// go because others came. It is called concurrently, and may be nil.
	Refused func(from net.Addr, err error)

	Wait   time.Duration // how long one may take to prove himself
	Places int           // how many may be about it at once, at least 1
}

// Door is a set of listeners whose callers have to prove themselves. When more
// are about that than there are places, the oldest of the source that has most
// of them has to go: a caller with good reasons needs a millisecond, so that
// it is one of many silent strangers.
type Door struct {
	cfg       Config
	listeners []*net.TCPListener
	stop      chan struct{}
	wg        sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	waiting list.List // of *caller, oldest first
	from    map[netip.Addr]int
}

// caller is a connection that has not proved itself.
type caller struct {
	conn *net.TCPConn
	from netip.Addr
}

// Open begins to accept connections from the listeners, which are the Door's
// from now on.
func Open(cfg Config, listeners ...*net.TCPListener) *Door {
	d := &Door{cfg: cfg, listeners: listeners, stop: make(chan struct{}), from: make(map[netip.Addr]int)}
	for _, ln := range listeners {
		d.wg.Go(func() { d.serve(ln) })
	}
	return d
}

// Close stops listening, closes the connections that have not proved
// themselves, and returns when all of the Door's goroutines have ended, those
// in Config.Prove and in the function that it returned among them. It may be
// called again.
func (d *Door) Close() {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.stop)
	}
	for _, ln := range d.listeners {
		ln.Close()
	}
	for e := d.waiting.Front(); e != nil; e = e.Next() {
		e.Value.(*caller).conn.Close()
	}
	d.mu.Unlock()
	d.wg.Wait()
}

func (d *Door) serve(ln *net.TCPListener) {
	for {
		conn, err := ln.AcceptTCP()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, most likely: let some go.
			d.mu.Lock()
			d.dropOne()
			d.mu.Unlock()
			select {
			case <-time.After(time.Millisecond):
			case <-d.stop:
			}
			continue
		}
		place := d.queue(conn)
		d.wg.Go(func() { d.admit(conn, place) })
	}
}

// queue gives a newcomer a place, which another may have to leave.
func (d *Door) queue(conn *net.TCPConn) *list.Element {
	c := &caller{conn: conn}
	if at, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		c.from = at.AddrPort().Addr().Unmap()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting.Len() >= d.cfg.Places {
		d.dropOne()
	}
	if d.closed { // Close has gone through the list before
		conn.Close()
	}
	d.from[c.from]++
	return d.waiting.PushBack(c)
}

// dropOne closes the oldest connection of the source that has most. The caller
// holds mu.
func (d *Door) dropOne() {
	var oldest *list.Element
	for e := d.waiting.Front(); e != nil; e = e.Next() {
		if oldest == nil || d.from[e.Value.(*caller).from] > d.from[oldest.Value.(*caller).from] {
			oldest = e
		}
	}
	if oldest != nil {
		oldest.Value.(*caller).conn.Close()
		d.forget(oldest)
	}
}

// forget takes a caller off the list. It does nothing the second time. The
// caller holds mu.
func (d *Door) forget(place *list.Element) {
	c := place.Value.(*caller)
	if c.conn == nil {
		return
	}
	if d.from[c.from]--; d.from[c.from] == 0 {
		delete(d.from, c.from)
	}
	d.waiting.Remove(place)
	c.conn = nil
}

// admit lets one connection prove itself.
func (d *Door) admit(conn *net.TCPConn, place *list.Element) {
	conn.SetDeadline(time.Now().Add(d.cfg.Wait))
	enter, err := d.cfg.Prove(conn)
	d.mu.Lock()
	d.forget(place)
	over := d.closed
	d.mu.Unlock()
	if err == nil {
		err = conn.SetDeadline(time.Time{}) // fails when it had to go meanwhile
	}
	if err != nil {
		if d.cfg.Refused != nil && !over && !errors.Is(err, net.ErrClosed) {
			d.cfg.Refused(conn.RemoteAddr(), err)
		}
		conn.Close()
		return
	}
	enter()
}
