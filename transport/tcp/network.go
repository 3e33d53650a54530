package tcp

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/shm"
)

// network is what several endpoints of a rank share: its connections, and the goroutine that serves them. The first
// endpoint has made it; the others, its children, are of the same ranks or of some of them. It ends with the last one.
type network struct {
	cfg  *Config       // of the first endpoint, whose ranks are those of the connections
	mesh *netconn.Mesh // makes connections on demand; nil: there are only those of the start

	conns  atomic.Pointer[[]*conn]     // by their numbers; replaced when one is added
	users  atomic.Pointer[[]*Endpoint] // the open endpoints; replaced when one is added or removed
	adding sync.Mutex                  // held while conns, users and their peers are changed

	poller int        // of all sockets; -1 before there is one
	use    sync.Mutex // held while the poller is in use, so that it is not closed meanwhile
	ended  bool       // the poller is closed
	pump   pump
}

// endpoints returns the open endpoints.
func (n *network) endpoints() []*Endpoint { return *n.users.Load() }

// all returns all connections, by their numbers.
func (n *network) all() []*conn { return *n.conns.Load() }

// join adds an endpoint, which gets peers on all connections with its ranks.
func (n *network) join(e *Endpoint) error {
	n.adding.Lock()
	defer n.adding.Unlock()
	users := n.endpoints()
	if len(users) == 0 && e.number > 0 {
		return transport.ErrClosed
	}
	if slices.ContainsFunc(users, func(u *Endpoint) bool { return u.number == e.number }) {
		return fmt.Errorf("tcp: the number %x belongs to another set of links", e.number)
	}
	for _, c := range n.all() {
		e.addPeer(c)
	}
	n.users.Store(new(append(slices.Clone(users), e)))
	return nil
}

// leave removes an endpoint, and reports whether it was the last one, which stays: a connection that comes while it
// closes must carry its notice.
func (n *network) leave(e *Endpoint) (last bool) {
	n.adding.Lock()
	defer n.adding.Unlock()
	users := slices.DeleteFunc(slices.Clone(n.endpoints()), func(u *Endpoint) bool { return u == e })
	if last = len(users) == 0; !last {
		n.users.Store(&users)
	}
	return last
}

// addConn adds a connection with a rank, without a socket yet, unless there is one.
func (n *network) addConn(rank int) *conn {
	n.adding.Lock()
	defer n.adding.Unlock()
	for _, c := range n.all() {
		if c.rank == rank {
			return c
		}
	}
	c := &conn{n: n, rank: rank, id: len(n.all()), fd: -1, wire: pendingWire{}}
	c.sets.Store(new(map[uint64]*peer{}))
	c.in.ahead = make([]byte, aheadBytes)
	c.connecting.Store(true)
	for _, e := range n.endpoints() {
		e.addPeer(c)
	}
	n.conns.Store(new(append(slices.Clone(n.all()), c)))
	return c
}

// closePoller closes the poller. No goroutine sleeps on it any more: the doorbells are closed.
func (n *network) closePoller() {
	n.use.Lock()
	defer n.use.Unlock()
	n.ended = true
	if n.poller >= 0 {
		_ = osys.CloseFD(n.poller)
	}
}

// Child returns the endpoint of a set of links between some ranks of e, or all, on the connections of e. of has
// these ranks by the child's. id is the same on all of them, and no other set of the job has it. local are the links
// within this rank's host, in a room of those of e; the child owns them, also after an error. All ranks have called
// Child before any of them uses it.
func (e *Endpoint) Child(id uint64, of []int, rank int, layout transport.Layout,
	local *shm.Endpoint) (*Endpoint, error) {
	ranks, all := make([]int, len(of)), e.net.cfg // which, unlike e, lasts as long as the network
	cfg := &Config{Layout: layout, Gone: func(r int) bool { return all.gone(ranks[r]) }, every: e.cfg.every}
	cfg.Rank, cfg.Size = rank, layout.Size
	for i, r := range of {
		ranks[i] = e.connRank(r)
		if e.cfg.Hosts != nil {
			cfg.Hosts = append(cfg.Hosts, e.cfg.Hosts[r])
		}
	}
	if all.HostOf != nil {
		cfg.HostOf = func(r int) string { return all.HostOf(ranks[r]) }
	}
	c := newMember(cfg, e.net, max(id, 1), ranks, local)
	if err := e.net.join(c); err != nil {
		return nil, errors.Join(err, local.Close())
	}
	return c, nil
}
