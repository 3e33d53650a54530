//go:build linux

package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/place"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

const (
	// handshakeTimeout limits the time in which a connection must authenticate.
	handshakeTimeout = 10 * time.Second

	// lateNodeTime is the time for which late nodes may still connect, and learn that there
	// will be no job.
	lateNodeTime = 3 * time.Second

	// maxUnauthenticated is the number of connections that may authenticate at the same time.
	maxUnauthenticated = 256
)

// Node is one node, as node 0 sees it.
type Node struct {
	*wire.NodeHello
	Ranks []int         // that it runs
	Conn  *netconn.Conn // to it, which the caller closes; node 0 has none
}

// gathering is the state of node 0 while it waits for the others.
type gathering struct {
	c       *Config
	session *netconn.Session
	warned  sync.Once
	done    chan struct{} // closed by end
	end     func()        // ends the gathering

	mu       sync.Mutex
	nodes    []*Node      // by number; nil: not yet connected
	seen     map[int]bool // nodes that have connected, including the refused
	conflict error        // why there will be no job
}

// Gather accepts, as node 0, the connections of all others at the port of the seed, and returns
// the nodes in order. A node with different settings ends it with an error,
// which all nodes get as well. Then, or when ctx ends, connections are closed.
func Gather(ctx context.Context, c *Config) ([]*Node, error) {
	g := &gathering{
		c: c, nodes: make([]*Node, c.Nodes), seen: make(map[int]bool), done: make(chan struct{}),
	}
	g.end = sync.OnceFunc(func() { close(g.done) })
	g.nodes[0] = &Node{NodeHello: &c.NodeHello}
	if c.Broken != "" {
		g.conflict = fmt.Errorf("node 0 on host %s: %s", c.Host, c.Broken)
	}
	g.endIfComplete()
	var err error
	if g.session, err = newSession(c.Key, c.JobID); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", listenAt(c.Seed))
	if err != nil {
		return nil, fmt.Errorf("listen at the seed %s for the other nodes: %w (hint: another port in --seed, on all nodes)",
			c.Seed, err)
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	d := netconn.OpenAcceptor(netconn.AcceptorConfig{
		Prove:   func(raw net.Conn) (func(), error) { return g.accept(parent, raw) },
		Refused: g.refused, Wait: handshakeTimeout, Places: maxUnauthenticated,
	}, l)
	end := c.showing(g.progress)
	select {
	case <-g.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	end()
	if err == nil {
		err = g.conflict
	}
	if err == nil && c.Again != nil {
		context.AfterFunc(parent, d.Close)
	} else {
		d.Close() // no further node is accepted
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = g.missingError()
	}
	if err == nil {
		err = g.layout()
	}
	for _, n := range g.nodes[1:] {
		if n != nil {
			sendAnswer(n.Conn, err)
		}
	}
	return g.nodes, err
}

// endIfComplete ends the gathering when all nodes are connected, or have learned why there will be no job. In
// that case late nodes may still connect for lateNodeTime. The caller holds mu.
func (g *gathering) endIfComplete() {
	switch {
	case g.conflict == nil && (slices.Contains(g.nodes, nil) || len(g.missing()) > 0):
	case g.conflict != nil && len(g.seen) < g.c.Nodes-1:
		time.AfterFunc(lateNodeTime, g.end)
	default:
		g.end()
	}
}

// listenAt returns the address at which node 0 listens: the seed itself if that is an
// address of this host, otherwise all addresses, with the port of the seed. A name may stand
// for the loopback on its own host, and an address may be that of a router.
func listenAt(seed string) string {
	host, port, _ := net.SplitHostPort(seed) // Check has seen it
	ip, err := netip.ParseAddr(host)
	if ip = ip.Unmap(); err == nil && (ip.IsLoopback() || place.OwnAddress(ip)) {
		return net.JoinHostPort(ip.String(), port)
	}
	return net.JoinHostPort("", port)
}

// missingError returns the error for nodes that have not connected in time.
func (g *gathering) missingError() error {
	missing := g.missing()
	return fmt.Errorf("%s %s did not connect to %s within %v (--start-timeout); %d of %d are connected (hint: check "+
		"that they can reach this address and have the same key file)",
		numbers.Plural(len(missing), "node"), topo.RankList(missing), g.c.Seed, g.c.Timeout,
		g.c.Nodes-len(missing), g.c.Nodes)
}

// progress describes how many nodes are connected.
func (g *gathering) progress() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	missing := g.missing()
	return fmt.Sprintf("%d of %d nodes are connected, without %s", g.c.Nodes-len(missing), g.c.Nodes,
		topo.RankList(missing))
}

// missing returns the nodes that are not connected.
func (g *gathering) missing() (list []int) {
	for i, n := range g.nodes {
		if n == nil || i > 0 && !n.isConnected() {
			list = append(list, i)
		}
	}
	return list
}

// layout sets the ranks of each node.
func (g *gathering) layout() error {
	var defaults []int
	for _, n := range g.nodes {
		defaults = append(defaults, n.Default)
	}
	hosts, err := layout(g.c.Nodes, g.c.Size, g.c.PerNode, defaults)
	for i := range hosts {
		g.nodes[i].Ranks = hosts[i].Ranks
	}
	return err
}

// accept authenticates a connection, and reads its hello.
func (g *gathering) accept(ctx context.Context, raw net.Conn) (enter func(), err error) {
	c, err := g.session.Accept(raw, func(h *netconn.Hello) error { return nil })
	if err == nil {
		err = c.Seal(ctx)
	}
	if err == nil {
		err = c.Welcome()
	}
	if err != nil {
		return nil, keyError(err)
	}
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout))
	f, err := wire.Read(c)
	if err != nil {
		return nil, err
	}
	h, ok := f.Body.(*wire.NodeHello)
	if !ok || h.Node != c.Peer() {
		return nil, errors.New("its hello does not name its node")
	}
	return func() { g.add(&Node{NodeHello: h, Conn: c}) }, nil
}

// refused reports only the first unauthenticated peer: there may be many.
func (g *gathering) refused(from net.Addr, err error) {
	warn, more := g.c.Trace, ""
	g.warned.Do(func() { warn, more = g.c.Warn, " (further ones are not reported)" })
	warn("refused a connection from %v: %v%s", from, err, more)
}

// add adds a node that has authenticated.
func (g *gathering) add(n *Node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.done: // all nodes are connected, or there will be no job
		err := g.conflict
		if why := g.c.difference(n.NodeHello); err == nil && why != "" {
			err = errors.New(why)
		}
		if err == nil && g.c.Again != nil {
			go g.c.Again(n)
			return
		}
		sendAnswer(n.Conn, cmp.Or(err, errors.New("all nodes have connected already")))
		return
	default:
	}
	defer g.endIfComplete()
	i := n.Node
	g.seen[i] = true
	if g.conflict == nil {
		g.conflict = g.conflictWith(n)
	}
	if g.conflict != nil {
		sendAnswer(n.Conn, g.conflict)
		return
	}
	if before := g.nodes[i]; before != nil {
		g.c.Trace("node %d has disconnected, and connects again", i)
		_ = before.Conn.Close()
	}
	g.nodes[i] = n
	g.c.Trace("node %d of %d is connected: host %s, %v", i, g.c.Nodes, n.Host, n.Conn.RemoteAddr())
}

// Accept has a node that connects after all have take part in the job, and returns the connection to it.
func (n *Node) Accept() io.ReadWriteCloser {
	sendAnswer(n.Conn, nil)
	return n.Conn
}

// conflictWith returns the reason why there can be no job with this node.
func (g *gathering) conflictWith(n *Node) error {
	i := n.Node
	if why := g.c.difference(n.NodeHello); why != "" {
		return errors.New(why)
	}
	if i >= g.c.Nodes {
		return fmt.Errorf("host %s is node %d of %d, want 0 to %d", n.Host, i, g.c.Nodes, g.c.Nodes-1)
	}
	if before := g.nodes[i]; before != nil && before.isConnected() {
		return fmt.Errorf("host %s and host %s both are node %d", before.Host, n.Host, i)
	}
	return nil
}

// isConnected reports whether a node is still connected. A node sends nothing before it gets its answer.
func (n *Node) isConnected() (connected bool) {
	raw, err := n.Conn.TCP().SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) {
			_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
			connected = err == unix.EAGAIN
		})
	}
	return connected
}
