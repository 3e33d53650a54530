package tcp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/shm"
)

// local has the name under which Endpoint embeds it.
type local = shm.Endpoint

// Endpoint is a rank's end of its links. It is a transport.Endpoint: a link belongs to shared memory or to TCP by the
// host of the rank at its other end. A step posts on several links and ends with one Commit or Release, whose fence is
// for all of them, on both sides: a fence orders all memory accesses of a goroutine, whatever memory they go to.
type Endpoint struct {
	*local // of the ranks of this host; methods that are not defined below are its own
	cfg    *Config
	net    *network
	number uint64 // of this set of links, in frames; 0: the first one of net
	ranks  []int  // those of the connections, by rank; nil: the same

	peers []atomic.Pointer[peer]  // by rank; nil: no connection was requested
	list  atomic.Pointer[[]*peer] // of these; replaced when one is added

	board    board
	faults   faults
	bell     bell
	buffers  buffers
	sentCall atomic.Uint64 // number of the latest call that was sent to the peers

	reporting sync.Mutex // held while calls and faults of this endpoint are sent
	left      bool       // nothing more is: the notice that it has closed follows
	closed    atomic.Bool
	once      sync.Once
	closeErr  error
}

// socket is one connection.
type socket struct {
	fd   int
	wire wire
	name string // for messages
}

// newEndpoint makes the first endpoint of a network without connections out of the links of its host, which sleep on
// doorbells. It owns them then.
func newEndpoint(cfg *Config, local *shm.Endpoint, mesh *netconn.Mesh) (*Endpoint, error) {
	n := &network{cfg: cfg, mesh: mesh, poller: -1}
	n.conns.Store(new([]*conn))
	n.users.Store(new([]*Endpoint))
	n.pump = pump{n: n, ended: make(chan struct{}), kicked: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	e := newMember(cfg, n, 0, nil, local)
	var err error
	if n.poller, err = osys.NewPoller(); err == nil {
		err = n.pump.event.Open()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tcp: rank %d: %w", e.cfg.Rank, err), local.Close(), n.release())
	}
	_ = n.join(e) // cannot fail: it is the first
	go n.pump.run()
	return e, nil
}

// newMember makes an endpoint that is not yet among those of its network.
func newMember(cfg *Config, n *network, number uint64, ranks []int, local *shm.Endpoint) *Endpoint {
	e := &Endpoint{local: local, cfg: cfg, net: n, number: number, ranks: ranks,
		peers: make([]atomic.Pointer[peer], cfg.Layout.Size)}
	e.buffers.slotBytes = cfg.Layout.SlotBytes
	e.board.calls = make([]record, cfg.Layout.Size)
	e.faults = faults{e: e}
	e.bell = bell{Bell: local.Bell().(*shm.Bell), e: e}
	e.list.Store(new([]*peer))
	return e
}

// connRank returns the number by which rank r is known to connections.
func (e *Endpoint) connRank(r int) int {
	if e.ranks == nil {
		return r
	}
	return e.ranks[r]
}

// all returns the ranks with which there is a connection, or will be.
func (e *Endpoint) all() []*peer { return *e.list.Load() }

// addPeer adds the rank at the other end of a connection, unless it is no rank of e. The mutex adding of the network is
// held.
func (e *Endpoint) addPeer(c *conn) {
	rank := c.rank
	if e.ranks != nil {
		rank = slices.Index(e.ranks, rank)
	}
	if rank < 0 || e.peers[rank].Load() != nil {
		return
	}
	p := &peer{e: e, rank: rank, conn: c}
	sets := maps.Clone(*c.sets.Load())
	sets[e.number] = p
	c.sets.Store(&sets)
	e.list.Store(new(append(slices.Clone(e.all()), p)))
	e.peers[rank].Store(p)
}

// SameHost reports whether rank r is on this rank's host.
func (e *Endpoint) SameHost(r int) bool {
	return r == e.cfg.Rank || e.cfg.Hosts != nil && e.cfg.Hosts[r] == e.cfg.Hosts[e.cfg.Rank]
}

// Sender returns the sending end of a link of this rank.
func (e *Endpoint) Sender(lane, dst int) (transport.Sender, error) {
	if dst >= 0 && dst < e.cfg.Layout.Size && e.SameHost(dst) {
		return e.local.Sender(lane, dst)
	}
	k := transport.Link{Lane: lane, Src: e.cfg.Rank, Dst: dst}
	if p := e.peerOf(k, dst); p != nil {
		return p.sender(k), nil
	}
	return nil, transport.NoLink(k.Lane, k.Src, k.Dst)
}

// Receiver returns the receiving end of a link of this rank.
func (e *Endpoint) Receiver(lane, src int) (transport.Receiver, error) {
	if src >= 0 && src < e.cfg.Layout.Size && e.SameHost(src) {
		return e.local.Receiver(lane, src)
	}
	k := transport.Link{Lane: lane, Src: src, Dst: e.cfg.Rank}
	if p := e.peerOf(k, src); p != nil {
		return p.receiver(k), nil
	}
	return nil, transport.NoLink(k.Lane, k.Src, k.Dst)
}

// Bell is this rank's own bell.
func (e *Endpoint) Bell() transport.Bell { return &e.bell }

// Reaches reports whether this rank and rank r read each other's own memory. It gives no reason for ranks on other
// hosts, which never can.
func (e *Endpoint) Reaches(r int) (ok bool, why string) {
	if e.SameHost(r) {
		return e.local.Reaches(r)
	}
	return false, ""
}

// FlushStatus makes the pump send the latest call to the peers. Otherwise they receive it within some tenths of a
// second, or when this rank is idle.
func (e *Endpoint) FlushStatus() {
	e.net.pump.urgent.Store(true)
	e.net.pump.kick()
}

// Status returns the latest status that rank r has sent; it is unknown where there has been no connection.
func (e *Endpoint) Status(r int) transport.Status {
	if e.SameHost(r) {
		return e.local.Status(r)
	}
	p := e.peers[r].Load()
	if p == nil || p.conn.connecting.Load() {
		return transport.Status{Unknown: true}
	}
	closed := p.closed.Load() // before the call: a closed rank enters none
	call, _ := e.board.lookup(r, 0)
	return transport.Status{Call: call, Closed: closed, Sends: true, Ended: p.ended()}
}

// CallBefore returns the call that rank r entered back calls before the latest one it has reported.
func (e *Endpoint) CallBefore(r, back int) (call.Header, bool) {
	if e.SameHost(r) {
		return e.local.CallBefore(r, back)
	}
	return e.board.lookup(r, back)
}

// on returns the host of a rank for messages, with a space before it; "" if it is not known.
func (e *Endpoint) on(r int) string {
	if e.cfg.HostOf == nil || e.cfg.HostOf(r) == "" {
		return ""
	}
	return " on " + e.cfg.HostOf(r)
}
