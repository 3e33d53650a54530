package rank

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/rank/internal/exchange"
)

// port is the one TCP port of a rank. Each connection that proves itself goes to the part of the World that it is for.
type port struct {
	net      *network
	auth     *authenticator
	members  *members
	mesh     *exchange.Mesh
	queries  *queries
	streams  *streams
	acceptor *netconn.Acceptor
	accepted atomic.Int64 // connections that the acceptor let in
}

// maxWaiting is the maximum number of connections whose proof is under way.
const maxWaiting = 128

// open begins to listen, starts memberlist, and then admits connections. In a later epoch the rank listens already, and
// needs no memberlist.
func (p *port) open(ctx context.Context, cfg *config) error {
	if cfg.place != nil {
		p.net = cfg.place.door.net
		p.members.use(p.net)
		p.serve(cfg.place.door.ln, cfg)
		return nil
	}
	err := cfg.CheckPorts(cfg.parsed.Ports)
	if err != nil {
		return err
	}
	if p.net, err = findNetwork(ctx, cfg, cfg.OneHost()); err != nil {
		return err
	}
	ln, err := listen(p.net.listen, p.net.port, cfg.parsed.Ports, cfg.LocalRank, p.net.seedPort)
	if err != nil {
		e := &Error{Self: cfg.Rank, Rank: -1, Op: "Init", Err: err}
		if p.net.port != 0 {
			e.Hint = "rank 0 listens at the seed address; choose a free port with TREERUN_SEED"
		}
		return e
	}
	p.logAddresses(cfg)
	number, err := netconn.PortOf(ln)
	if err != nil {
		ln.Close()
		return &Error{Self: cfg.Rank, Rank: -1, Op: "Init", Err: err}
	}
	p.streams = newStreams(netip.AddrPortFrom(p.net.offered[0].IP, number), p.members)
	p.members.use(p.net)
	if err := p.members.open(p.streams, cfg); err != nil {
		ln.Close()
		return err
	}
	p.serve(ln, cfg)
	return nil
}

// serve admits connections.
func (p *port) serve(ln net.Listener, cfg *config) {
	refusals := &netconn.Refusals{Log: cfg.log.With("rank", cfg.Rank)}
	p.acceptor = netconn.OpenAcceptor(netconn.AcceptorConfig{
		Prove: p.prove, Refused: refusals.Refused, Log: refusals.Log, Wait: cfg.helloTimeout, Places: maxWaiting,
	}, ln)
}

// logAddresses logs, once per host and only if verbose, the addresses that the ranks offer.
func (p *port) logAddresses(cfg *config) {
	if text := p.net.surplus(cfg); text != "" && cfg.LocalRank <= 0 {
		cfg.log.Warn("treerun: " + text)
	}
	if !cfg.parsed.Verbose || cfg.LocalRank > 0 || p.net.offered[0].Kind == iface.Loopback {
		return
	}
	attrs := []any{"host", cfg.Host, "rank", cfg.Rank, "offered", numbers.Join(p.net.offered, ", ")}
	isLoopback := func(a iface.Address) bool { return a.Kind == iface.Loopback }
	if left := slices.DeleteFunc(slices.Clone(p.net.left), isLoopback); len(left) > 0 {
		attrs = append(attrs, "left out", numbers.Join(left, ", "))
	}
	cfg.log.Info("treerun: addresses of this host", attrs...)
}

// prove verifies the peer of a connection, and returns the function that handles it.
func (p *port) prove(conn net.Conn) (enter func(), err error) {
	if at, is := conn.LocalAddr().(*net.TCPAddr); !is {
		return nil, netconn.ErrNoName
	} else if !p.net.accepts(at.AddrPort().Addr()) {
		return func() { conn.Close() }, nil
	}
	c, err := p.auth.accept(conn)
	return func() { p.admit(c) }, err
}

// admit takes a connection that has proved itself.
func (p *port) admit(c *netconn.Conn) {
	conn := c.Raw()
	if c.Welcome() != nil {
		conn.Close() // the peer will try again
		return
	}
	p.accepted.Add(1)
	p.members.noteSource(c.Peer(), conn.RemoteAddr())
	switch channel(c.Channel()) {
	case listChannel:
		if p.streams == nil { // a later epoch
			conn.Close()
			return
		}
		p.streams.take(conn)
	case dataChannel:
		p.mesh.Attach(c.Peer(), conn)
	case statusChannel:
		p.queries.answer(conn)
	}
}

// close ends memberlist, and the acceptor with its connections.
func (p *port) close() {
	if p.members.list != nil {
		p.members.list.Shutdown() // returns no error that is not logged
	}
	if p.acceptor != nil {
		p.acceptor.Close()
	}
}
