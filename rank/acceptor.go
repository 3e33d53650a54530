package rank

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/netconn"
)

// maxWaiting is how many connections may be proving themselves at once.
const maxWaiting = 128

// acceptor is the one TCP port of a rank. It lets in who proves to be a rank
// of the job, and gives the connection to memberlist or to the mesh.
type acceptor struct {
	authenticator *authenticator
	net           *network
	ln            *net.TCPListener
	refusals      netconn.Refusals
	streams       chan net.Conn                 // for memberlist
	data          func(peer int, conn net.Conn) // for the mesh; must not block
	asked         func(conn net.Conn)           // by a rank that wants to know what this one waits for; must not block
	came          func(peer int, from net.Addr) // hears of everybody who is let in
	hello         time.Duration                 // how long a connection may take to prove itself

	stop      context.Context
	accepting *netconn.Acceptor
	taken     atomic.Int64 // connections that were let in
}

// open begins to accept connections, until stop is done.
func (d *acceptor) open(stop context.Context) {
	d.streams, d.stop = make(chan net.Conn), stop
	d.accepting = netconn.OpenAcceptor(netconn.AcceptorConfig{
		Prove: d.prove, Refused: d.refused, Wait: d.hello, Places: maxWaiting,
	}, d.ln)
}

// close stops listening and ends the connections that have not proved
// themselves. It returns when all goroutines are gone. Precondition: stop is
// done.
func (d *acceptor) close() { d.accepting.Close() }

func (d *acceptor) pause(t time.Duration) {
	select {
	case <-time.After(t):
	case <-d.stop.Done():
	}
}

// prove finds out who has come, and returns what to do with him.
func (d *acceptor) prove(conn net.Conn) (enter func(), err error) {
	if !d.net.takes(conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr()) {
		return func() { conn.Close() }, nil
	}
	c, err := d.authenticator.accept(conn)
	if err != nil {
		return nil, err
	}
	return func() { d.admit(c) }, nil
}

// admit takes a connection that has proved itself.
func (d *acceptor) admit(c *netconn.Conn) {
	conn := c.Raw()
	if c.Welcome() != nil {
		conn.Close() // he will try again
		return
	}
	d.taken.Add(1)
	d.came(c.Peer(), conn.RemoteAddr())
	switch channel(c.Channel()) {
	case dataChannel:
		d.data(c.Peer(), conn)
		return
	case statusChannel:
		d.asked(conn)
		return
	}
	select {
	case d.streams <- conn:
	case <-d.stop.Done():
		conn.Close()
	}
}

// refused reports a caller, or a datagram, that was refused.
func (d *acceptor) refused(from net.Addr, err error) {
	if d.stop.Err() == nil {
		d.refusals.Refused(from, err)
	}
}
