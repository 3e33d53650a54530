package netconn

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// AcceptorConfig says whom an Acceptor lets in, and how long that may take.
type AcceptorConfig struct {
	// Prove finds out who is at the other end of c, which has a deadline. It
	// returns what to do with him, which then owns c, has no deadline and may
	// take its time; or why he is refused, and then the Acceptor closes c. It is
	// called concurrently.
	Prove func(c net.Conn) (enter func(), err error)

	// Refused is told of callers who were refused, but not of those who had to
	// go because others came. It is called concurrently, and may be nil.
	Refused func(from net.Addr, err error)

	Wait   time.Duration // how long one may take to prove himself
	Places int           // how many may be about it at once, at least 1
}

// Acceptor is a set of listeners whose callers have to prove themselves. When more
// are about that than there are places, the oldest of the source that has most
// of them has to go: a caller with good reasons needs a millisecond, so that
// it is one of many silent unauthenticated peers.
type Acceptor struct {
	cfg       AcceptorConfig
	listeners []net.Listener
	stop      chan struct{}
	wg        sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	waiting list.List // of *caller, oldest first
	from    map[netip.Addr]int
}

// caller is a connection that has not proved itself.
type caller struct {
	conn net.Conn
	from netip.Addr
}

// OpenAcceptor begins to accept connections from the listeners, which are the Acceptor's
// from now on.
func OpenAcceptor(cfg AcceptorConfig, listeners ...net.Listener) *Acceptor {
	a := &Acceptor{cfg: cfg, listeners: listeners, stop: make(chan struct{}), from: make(map[netip.Addr]int)}
	for _, ln := range listeners {
		a.wg.Go(func() { a.serve(ln) })
	}
	return a
}

// Close stops listening, closes the connections that have not proved
// themselves, and returns when all of the Acceptor's goroutines have ended, those
// in AcceptorConfig.Prove and in the function that it returned among them. It may be
// called again.
func (a *Acceptor) Close() {
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.stop)
	}
	for _, ln := range a.listeners {
		ln.Close()
	}
	for e := a.waiting.Front(); e != nil; e = e.Next() {
		e.Value.(*caller).conn.Close()
	}
	a.mu.Unlock()
	a.wg.Wait()
}

func (a *Acceptor) serve(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, most likely: let some go.
			a.mu.Lock()
			a.dropOne()
			a.mu.Unlock()
			select {
			case <-time.After(time.Millisecond):
			case <-a.stop:
			}
			continue
		}
		place := a.queue(conn)
		a.wg.Go(func() { a.admit(conn, place) })
	}
}

// queue gives a newcomer a place, which another may have to leave.
func (a *Acceptor) queue(conn net.Conn) *list.Element {
	c := &caller{conn: conn, from: addrOf(conn.RemoteAddr())}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting.Len() >= a.cfg.Places {
		a.dropOne()
	}
	if a.closed { // Close has gone through the list before
		conn.Close()
	}
	a.from[c.from]++
	return a.waiting.PushBack(c)
}

// dropOne closes the oldest connection of the source that has most. The caller
// holds mu.
func (a *Acceptor) dropOne() {
	var oldest *list.Element
	for e := a.waiting.Front(); e != nil; e = e.Next() {
		if oldest == nil || a.from[e.Value.(*caller).from] > a.from[oldest.Value.(*caller).from] {
			oldest = e
		}
	}
	if oldest != nil {
		oldest.Value.(*caller).conn.Close()
		a.forget(oldest)
	}
}

// forget takes a caller off the list. It does nothing the second time. The
// caller holds mu.
func (a *Acceptor) forget(place *list.Element) {
	c := place.Value.(*caller)
	if c.conn == nil {
		return
	}
	if a.from[c.from]--; a.from[c.from] == 0 {
		delete(a.from, c.from)
	}
	a.waiting.Remove(place)
	c.conn = nil
}

// admit lets one connection prove itself.
func (a *Acceptor) admit(conn net.Conn, place *list.Element) {
	conn.SetDeadline(time.Now().Add(a.cfg.Wait))
	enter, err := a.cfg.Prove(conn)
	a.mu.Lock()
	a.forget(place)
	over := a.closed
	a.mu.Unlock()
	if err == nil {
		err = conn.SetDeadline(time.Time{}) // fails when it had to go meanwhile
	}
	if err != nil {
		if a.cfg.Refused != nil && !over && !errors.Is(err, net.ErrClosed) {
			a.cfg.Refused(conn.RemoteAddr(), err)
		}
		conn.Close()
		return
	}
	enter()
}
