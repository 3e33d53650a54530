package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/place"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

const (
	// handshakeTimeout is how long a connection may take to show the key.
	handshakeTimeout = 10 * time.Second

	// tellTime is how long nodes that come late may come still to learn that there
	// will be no job.
	tellTime = 3 * time.Second

	// maxUnproved is how many connections may be about that at once.
	maxUnproved = 256
)

// Node is one node, as node 0 sees it.
type Node struct {
	Host    string
	Default int // ranks that it runs when nobody says
	Ranks   int // ranks that it is to run
	conn    *stream
}

// Conn returns the connection to a node. The caller closes it. Node 0 has none.
func (n *Node) Conn() net.Conn { return n.conn }

// gathering is the meeting while node 0 waits for the others. Gather's goroutine alone
// has it, but for session, warned and the channels.
type gathering struct {
	c       *Config
	session *netconn.Session

	nodes    []*Node // by node; nil: not there yet
	missing  int
	seen     map[int]bool // nodes that came, those refused as well
	conflict error        // why there will be no job

	warned sync.Once
	events chan func()   // what Gather's goroutine calls
	over   chan struct{} // closed when the meeting is over
}

// Gather waits, as node 0, for all others at the port of the seed, and returns
// the nodes in order. Nodes that were told something else end it with an error,
// which they get as well. Then, or when ctx ends, connections are closed.
func Gather(ctx context.Context, c *Config) ([]*Node, error) {
	g := &gathering{
		c: c, nodes: make([]*Node, c.Nodes), missing: c.Nodes - 1, seen: make(map[int]bool),
		events: make(chan func()), over: make(chan struct{}),
	}
	g.nodes[0] = &Node{Host: c.Host, Default: c.Default}
	if c.Broken != "" {
		g.conflict = fmt.Errorf("node 0 on host %s: %s", c.Host, c.Broken)
	}
	var err error
	if g.session, err = secure(c.Key, c.JobID); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", listenAt(c.Seed))
	if err != nil {
		return nil, fmt.Errorf("listen at the seed %s for the other nodes: %w (hint: another port in --seed, on all nodes)",
			c.Seed, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	d := netconn.OpenAcceptor(netconn.AcceptorConfig{
		Prove:   func(raw net.Conn) (func(), error) { return g.meet(ctx, raw) },
		Refused: g.refused, Wait: handshakeTimeout, Places: maxUnproved,
	}, l)
	err = g.wait(ctx)
	close(g.over)
	d.Close()
	return g.finish(err)
}

// listenAt returns where node 0 listens: at the seed itself when that is an
// address of this host, else at all addresses, with its port. A name may stand
// for the loopback on its own host, and an address may be that of a router.
func listenAt(seed string) string {
	host, port, _ := net.SplitHostPort(seed) // Check has seen it
	ip, err := netip.ParseAddr(host)
	if ip = ip.Unmap(); err == nil && (ip.IsLoopback() || place.OwnAddress(ip)) {
		return net.JoinHostPort(ip.String(), port)
	}
	return net.JoinHostPort("", port)
}

// wait returns when all are there, or will not be.
func (g *gathering) wait(ctx context.Context) error {
	var late <-chan time.Time
	for {
		switch all := len(g.seen) >= g.c.Nodes-1; {
		case g.conflict == nil && g.missing == 0 || g.conflict != nil && all:
			return g.conflict
		case g.conflict != nil && late == nil:
			late = time.After(tellTime)
		}
		select {
		case f := <-g.events:
			f()
		case <-late:
			return g.conflict
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return context.Cause(ctx)
			}
			return g.late()
		}
	}
}

// late is the error for nodes that have not come.
func (g *gathering) late() error {
	var missing []int
	for i, n := range g.nodes {
		if n == nil {
			missing = append(missing, i)
		}
	}
	return fmt.Errorf("%s %s did not come to %s within %v (--start-timeout); %d of %d are there (hint: can they reach "+
		"that "+
		"address, and have they the same key file?)", numbers.Plural(len(missing), "node"), topo.RankList(missing), g.c.Seed,
		g.c.Timeout, g.c.Nodes-g.missing, g.c.Nodes)
}

// finish answers all nodes that are there. With an error their connections are closed.
func (g *gathering) finish(err error) ([]*Node, error) {
	if err == nil {
		err = g.layout()
	}
	refused := ""
	if err != nil {
		refused = err.Error()
	}
	for i, n := range g.nodes[1:] {
		if n == nil {
			continue
		}
		if e := n.conn.answer(refused); e != nil && err == nil {
			err = fmt.Errorf("node %d on host %s: %w", i+1, n.Host, e)
		}
	}
	for _, n := range g.nodes[1:] {
		if n != nil && err != nil {
			_ = n.conn.Close()
		}
	}
	return g.nodes, err
}

// layout says how many ranks each node runs.
func (g *gathering) layout() error {
	var defaults []int
	for _, n := range g.nodes {
		defaults = append(defaults, n.Default)
	}
	counts, err := Layout(g.c.Nodes, g.c.Size, g.c.PerNode, defaults)
	for i := range counts {
		g.nodes[i].Ranks = counts[i]
	}
	return err
}

// meet hears a connection's hello.
func (g *gathering) meet(ctx context.Context, raw net.Conn) (enter func(), err error) {
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
	b, err := read(c)
	if err != nil {
		return nil, err
	}
	h, ok := b.(*wire.Node)
	if !ok || h.Node != c.Peer() {
		return nil, errors.New("it does not say which node it is")
	}
	return func() {
		s := newStream(c)
		if !g.post(func() { g.add(h, s) }) {
			_ = c.Close()
		}
	}, nil
}

// post has Gather's goroutine call f, unless the meeting is over.
func (g *gathering) post(f func()) bool {
	select {
	case g.events <- f:
		return true
	case <-g.over:
		return false
	}
}

// refused tells of the first stranger only: there may be many.
func (g *gathering) refused(from net.Addr, err error) {
	say, more := g.c.Trace, ""
	g.warned.Do(func() { say, more = g.c.Warn, " (further ones are not reported)" })
	say("refused a connection from %v: %v%s", from, err, more)
}

// add takes a node that has shown the key.
func (g *gathering) add(h *wire.Node, s *stream) {
	g.seen[h.Node] = true
	if g.conflict == nil {
		g.conflict = g.refusal(h)
	}
	if g.conflict != nil {
		_ = s.answer(g.conflict.Error())
		_ = s.Close()
		return
	}
	n := &Node{Host: h.Host, Default: h.Default, conn: s}
	g.nodes[h.Node] = n
	g.missing--
	g.c.Trace("node %d of %d is here: host %s, %v", h.Node, g.c.Nodes, h.Host, s.RemoteAddr())
	gone := func() { // while others are still to come: it may come again
		g.c.Trace("node %d has gone again", h.Node)
		g.nodes[h.Node] = nil
		g.missing++
	}
	go s.watch(func() { g.post(gone) })
}

// refusal returns why there can be no job with this node.
func (g *gathering) refusal(h *wire.Node) error {
	if why := g.c.differs(h); why != "" {
		return errors.New(why)
	}
	if h.Node >= g.c.Nodes {
		return fmt.Errorf("host %s is node %d of %d, want 0 to %d", h.Host, h.Node, g.c.Nodes, g.c.Nodes-1)
	}
	if there := g.nodes[h.Node]; there != nil {
		return fmt.Errorf("host %s and host %s both are node %d", there.Host, h.Host, h.Node)
	}
	return nil
}
