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

// gathering is the meeting while node 0 waits for the others.
type gathering struct {
	c       *Config
	session *netconn.Session

	mu       sync.Mutex
	nodes    []*Node // by node; nil: not there yet
	missing  int
	seen     map[int]bool // nodes that came, those refused as well
	conflict error        // why there will be no job
	warned   bool
	changed  chan struct{} // gets a value when missing or conflict changes
}

// Gather waits, as node 0, for all others at the port of the seed, and returns
// the nodes in order. Nodes that were told something else end it with an error,
// which they get as well. Then, or when ctx ends, connections are closed.
func Gather(ctx context.Context, c *Config) ([]*Node, error) {
	g := &gathering{
		c: c, nodes: make([]*Node, c.Nodes), missing: c.Nodes - 1, seen: make(map[int]bool),
		changed: make(chan struct{}, 1),
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
		g.mu.Lock()
		err, missing, all := g.conflict, g.missing, len(g.seen) >= g.c.Nodes-1
		g.mu.Unlock()
		switch {
		case err == nil && missing == 0 || err != nil && all:
			return err
		case err != nil && late == nil:
			late = time.After(tellTime)
		}
		select {
		case <-g.changed:
		case <-late:
			return err
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
	g.mu.Lock()
	defer g.mu.Unlock()
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

// finish answers all nodes that are there.
func (g *gathering) finish(err error) ([]*Node, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		err = g.layout()
	}
	refused := ""
	if err != nil {
		refused = err.Error()
	}
	for i, n := range g.nodes {
		if i == 0 || n == nil {
			continue
		}
		if e := n.conn.answer(refused); e != nil && err == nil {
			err = fmt.Errorf("node %d on host %s: %w", i, n.Host, e)
		}
	}
	if err != nil {
		for i, n := range g.nodes {
			if i > 0 && n != nil {
				_ = n.conn.Close()
			}
		}
		return nil, err
	}
	return g.nodes, nil
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
	return func() { g.add(h, c) }, nil
}

// refused tells of the first stranger only: there may be many.
func (g *gathering) refused(from net.Addr, err error) {
	g.mu.Lock()
	first := !g.warned
	g.warned = true
	g.mu.Unlock()
	if first {
		g.c.Warn("refused a connection from %v: %v (further ones are not reported)", from, err)
	} else {
		g.c.Trace("refused a connection from %v: %v", from, err)
	}
}

// add takes a node that has shown the key.
func (g *gathering) add(h *wire.Node, c *netconn.Conn) {
	s := newStream(c)
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notify()
	g.seen[h.Node] = true
	why := g.c.differs(h)
	switch {
	case g.conflict != nil:
		why = g.conflict.Error()
	case why == "" && g.nodes[h.Node] != nil:
		why = fmt.Sprintf("host %s and host %s both are node %d", g.nodes[h.Node].Host, h.Host, h.Node)
	}
	if why != "" {
		if g.conflict == nil {
			g.conflict = errors.New(why)
		}
		_ = s.answer(why)
		_ = s.Close()
		return
	}
	g.nodes[h.Node] = &Node{Host: h.Host, Default: h.Default, conn: s}
	g.missing--
	g.c.Trace("node %d of %d is here: host %s, %v", h.Node, g.c.Nodes, h.Host, c.RemoteAddr())
	go s.watch(func() { g.lost(h.Node, s) })
}

// lost forgets a node that has gone while others were still to come: it may come
// again.
func (g *gathering) lost(node int, s *stream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.nodes[node]; n != nil && n.conn == s && g.missing > 0 {
		g.c.Trace("node %d has gone again", node)
		g.nodes[node] = nil
		g.missing++
		g.notify()
	}
}

func (g *gathering) notify() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}
