package tcp

import (
	"errors"

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

// peerOf returns the other end of a link, nil where there is no such link. It requests the connection if there is none
// yet.
func (e *Endpoint) peerOf(k transport.Link, rank int) *peer {
	if !e.cfg.Layout.Has(k) {
		return nil
	}
	p := e.peers[rank].Load()
	if p == nil && e.net.mesh != nil {
		e.net.addConn(e.connRank(rank))
		e.net.mesh.Reach(e.connRank(rank))
		p = e.peers[rank].Load()
	}
	return p
}

// onConnected takes over the new connection with a rank, or the error if it could not be made.
func (n *network) onConnected(rank int, come *netconn.Conn, err error) {
	c := n.addConn(rank)
	if err == nil {
		var k socket
		if k, err = take(come); err == nil {
			err = c.attach(k)
		}
	}
	none := (*netconn.UnreachableError)(nil)
	closed := errors.As(err, &none) && none.Refused // the rank has listened since the communicator was made
	if err != nil {
		_ = c.close()
	}
	for _, p := range *c.sets.Load() {
		switch e := p.e; {
		case err == nil:
			e.resend()
		case closed:
			p.closed.Store(true)
		default:
			e.propose(transport.Faultf(transport.FaultLink, p.rank, "rank %d%s: %v", p.rank, e.on(p.rank), err))
		}
	}
	n.pump.kick()
	c.ring(nil)
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
	c.flushLocked(nil)
	return osys.Watch(c.n.poller, c.fd, c.id)
}
