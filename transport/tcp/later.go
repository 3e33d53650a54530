package tcp

import (
	"errors"
	"slices"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
)

// A connection that is still to come is one whose socket has no room, and nothing to receive: frames wait in its
// queue, and nobody who uses its links need know.

// noWire is the wire of such a connection.
type noWire struct{}

func (noWire) send(*osys.Vectors) (int, error) { return 0, osys.ErrAgain }
func (noWire) recv(*osys.Vectors) (int, error) { return 0, osys.ErrAgain }
func (noWire) push() (bool, error)             { return true, nil }
func (noWire) hides() bool                     { return false }

// all returns all connections, by their numbers.
func (e *Endpoint) all() []*conn { return *e.conns.Load() }

// connOf returns the connection of a link, nil where there is no such link. It has it made where that is still to come.
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

// addConn makes a connection with a rank that has no socket yet, unless there is one.
func (e *Endpoint) addConn(rank int) *conn {
	e.adding.Lock()
	defer e.adding.Unlock()
	if p := e.peers[rank].Load(); p != nil {
		return p
	}
	p := &conn{e: e, rank: rank, id: len(e.all()), fd: -1, wire: noWire{}}
	p.in.ahead = make([]byte, aheadBytes)
	p.late.Store(true)
	e.conns.Store(new(append(slices.Clone(e.all()), p)))
	e.peers[rank].Store(p)
	return p
}

// opened takes the connection with a rank that has come, or why it has not.
func (e *Endpoint) opened(rank int, come *netconn.Conn, err error) {
	c := e.addConn(rank)
	if err == nil {
		var k socket
		if k, err = take(come); err == nil {
			err = c.attach(k)
		}
	}
	if err == nil {
		e.pump.again()
	} else {
		none := (*netconn.UnreachableError)(nil)
		closed := errors.As(err, &none) && none.Refused // it has listened when the communicator was made
		c.closed.Store(closed)
		_ = c.close()
		if !closed {
			e.propose(transport.Faultf(transport.FaultLink, rank, "rank %d%s: %v", rank, e.on(rank), err))
		}
	}
	e.pump.kick()
	e.bell.Ring()
}

// absent says whether the connection is still to come.
func (c *conn) absent() bool { return c.late.Load() }

// attach gives a connection its socket, which is the connection's from now on.
func (c *conn) attach(k socket) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.rmu.Lock() // as in close
	defer c.rmu.Unlock()
	if c.gone {
		return osys.CloseFD(k.fd)
	}
	c.fd, c.wire, c.name = k.fd, k.wire, k.name
	c.blocked.Store(false)
	c.room = false
	c.late.Store(false)
	c.flushLocked()
	return osys.Watch(c.e.bell.poller, c.fd, c.id)
}
