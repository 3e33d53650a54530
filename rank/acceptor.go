package rank

import (
	"net"

	"github.com/treerun/treerun/internal/netconn"
)

// maxWaiting is how many connections may be proving themselves at once.
const maxWaiting = 128

// accept lets those in who prove at ln, the one TCP port of a rank, that they are ranks
// of the job.
func (w *World) accept(ln net.Listener) *netconn.Acceptor {
	refusals := &netconn.Refusals{Log: w.cfg.log.With("rank", w.cfg.Rank)}
	return netconn.OpenAcceptor(netconn.AcceptorConfig{
		Prove: w.prove, Refused: refusals.Refused, Wait: w.cfg.helloTimeout, Places: maxWaiting,
	}, ln)
}

// prove finds out who has come, and returns what to do with it.
func (w *World) prove(conn net.Conn) (enter func(), err error) {
	if !w.net.takes(conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr()) {
		return func() { conn.Close() }, nil
	}
	c, err := w.mesh.authenticator.accept(conn)
	return func() { w.admit(c) }, err
}

// admit takes a connection that has proved itself.
func (w *World) admit(c *netconn.Conn) {
	conn := c.Raw()
	if c.Welcome() != nil {
		conn.Close() // it will try again
		return
	}
	w.taken.Add(1)
	w.members.came(c.Peer(), conn.RemoteAddr())
	switch channel(c.Channel()) {
	case gossipChannel:
		w.gossip.take(conn)
	case dataChannel:
		w.mesh.attach(c.Peer(), conn)
	case statusChannel:
		w.tellWaits(conn)
	}
}
