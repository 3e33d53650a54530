package tcp

import (
	"errors"
	"slices"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
)

// A connection that is still to come behaves like one whose socket has no room, and nothing to receive: frames wait in
// its queue, and the users of its links need not know.

// pendingWire is the wire of such a connection.
type pendingWire struct{}

func (pendingWire) send(*osys.Vectors) (int, error) { return 0, osys.ErrAgain }
func (pendingWire) recv(*osys.Vectors) (int, error) { return 0, osys.ErrAgain }
func (pendingWire) push() (bool, error)             { return true, nil }
func (pendingWire) buffersInput() bool              { return false }

// all returns all connections, by their numbers.
func (e *Endpoint) all() []*conn { return *e.conns.Load() }

// connOf returns the connection of a link, nil where there is no such link. It requests the connection if there is none
// yet.
func (e *Endpoint) connOf(k transport.Link, rank int) *conn {
	if !e.cfg.Layout.Has(k) {
		return nil
	}
	p := e.peers[rank].Load()
	if p == nil && e.mesh != nil {
		p = e.addConn(rank)
		e.mesh.Reach(rank)
	}
	return p
}

// addConn adds a connection with a rank, without a socket yet, unless there is one.
func (e *Endpoint) addConn(rank int) *conn {
	e.adding.Lock()
	defer e.adding.Unlock()
	if p := e.peers[rank].Load(); p != nil {
		return p
	}
	p := &conn{e: e, rank: rank, id: len(e.all()), fd: -1, wire: pendingWire{}}
	p.lanes.conn = p
	p.in.ahead = make([]byte, aheadBytes)
	p.connecting.Store(true)
	e.conns.Store(new(append(slices.Clone(e.all()), p)))
	e.peers[rank].Store(p)
	return p
}

// onConnected takes over the new connection with a rank, or the error if it could not be made.
func (e *Endpoint) onConnected(rank int, come *netconn.Conn, err error) {
	c := e.addConn(rank)
	if err == nil {
		var k socket
		if k, err = take(come); err == nil {
			err = c.attach(k)
		}
	}
	if err == nil {
		e.pump.resend()
	} else {
		none := (*netconn.UnreachableError)(nil)
		closed := errors.As(err, &none) && none.Refused // the rank has listened since the communicator was made
		c.closed.Store(closed)
		_ = c.close()
		if !closed {
			e.propose(transport.Faultf(transport.FaultLink, rank, "rank %d%s: %v", rank, e.on(rank), err))
		}
	}
	e.pump.kick()
	e.bell.Ring()
}

// attach gives a connection its socket, which it owns from now on.
func (c *conn) attach(k socket) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.rmu.Lock() // as in close
	defer c.rmu.Unlock()
	if c.discarded {
		return osys.CloseFD(k.fd)
	}
	c.fd, c.wire, c.name = k.fd, k.wire, k.name
	c.blocked.Store(false)
	c.room = false
	c.connecting.Store(false)
	c.flushLocked()
	return osys.Watch(c.e.bell.poller, c.fd, c.id)
}
