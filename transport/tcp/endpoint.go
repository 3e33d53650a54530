package tcp

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
)

// Endpoint is one rank's end of links over TCP. It is a transport.Endpoint; what
// it has besides is for packages that combine it with other links.
type Endpoint struct {
	setup

	peers []*remote // by rank; nil where there is no connection
	conns []*conn

	board   board
	faults  faults
	bell    bell
	pump    pump
	buffers buffers

	fence    atomic.Uint32
	closed   atomic.Bool
	stopped  chan struct{} // closed with the endpoint
	once     sync.Once
	closeErr error
}

// setup is what newEndpoint needs to know.
type setup struct {
	rank   int
	layout transport.Layout
	host   func(rank int) string // may be nil
	member func(rank int) bool   // whether a rank has connections at all; nil: every rank has
	every  time.Duration         // how often others are told of calls; 0: tellEvery
}

// socket is one connection for newEndpoint, which owns it then.
type socket struct {
	peer int
	fd   int
	wire wire   // nil: fd itself
	name string // for messages
}

// newEndpoint makes the endpoint of a rank out of connections: to each peer the
// same number, in the same order as the peer has them.
func newEndpoint(s setup, sockets []socket) (*Endpoint, error) {
	e := &Endpoint{
		setup:   s,
		peers:   make([]*remote, s.layout.Size),
		stopped: make(chan struct{}),
	}
	e.layout.Links = s.layout.Sorted()
	e.buffers.slotBytes = s.layout.SlotBytes
	e.board.calls = make([]record, s.layout.Size)
	e.faults = faults{e: e, done: make(chan struct{})}
	e.bell = bell{e: e, poller: -1}
	e.pump = pump{e: e, ended: make(chan struct{}), kicked: make(chan struct{}, 1),
		timer: time.NewTimer(time.Hour)}
	if e.every == 0 {
		e.every = tellEvery
	}
	for _, k := range sockets {
		e.addConn(k)
	}
	if err := e.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("tcp: rank %d: %w", e.rank, err), e.release())
	}
	go e.pump.run()
	return e, nil
}

func (e *Endpoint) addConn(k socket) {
	p := e.peers[k.peer]
	if p == nil {
		p = &remote{e: e, rank: k.peer}
		e.peers[k.peer] = p
	}
	c := &conn{e: e, peer: p, id: len(e.conns), fd: k.fd, wire: k.wire, name: k.name}
	if c.wire == nil {
		c.wire = plain(k.fd)
	}
	c.in.ahead = make([]byte, aheadBytes)
	p.conns = append(p.conns, c)
	e.conns = append(e.conns, c)
}

// open makes the descriptors to wait on.
func (e *Endpoint) open() (err error) {
	if e.bell.poller, err = osys.NewPoller(); err != nil {
		return err
	}
	if err := errors.Join(e.bell.event.Open(), e.pump.event.Open()); err != nil {
		return err
	}
	if err := osys.Watch(e.bell.poller, e.bell.event.FD(), eventID); err != nil {
		return err
	}
	for _, c := range e.conns {
		if err := osys.Watch(e.bell.poller, c.fd, c.id); err != nil {
			return err
		}
	}
	return nil
}

// Sender returns the sending end of a link of this rank.
func (e *Endpoint) Sender(lane, dst int) (transport.Sender, error) {
	k := transport.Link{Lane: lane, Src: e.rank, Dst: dst}
	if !e.layout.Has(k) || e.peers[dst] == nil {
		return nil, transport.NoLink(k.Lane, k.Src, k.Dst)
	}
	return e.peers[dst].sender(k), nil
}

// Receiver returns the receiving end of a link of this rank.
func (e *Endpoint) Receiver(lane, src int) (transport.Receiver, error) {
	k := transport.Link{Lane: lane, Src: src, Dst: e.rank}
	if !e.layout.Has(k) || e.peers[src] == nil {
		return nil, transport.NoLink(k.Lane, k.Src, k.Dst)
	}
	return e.peers[src].receiver(k), nil
}

// Bell is this rank's own bell.
func (e *Endpoint) Bell() transport.Bell { return &e.bell }

// PollFD returns a descriptor that can be read while something has come for this
// rank, or its Bell was rung, since the Bell was prepared: for an owner who waits
// for other things too. Before that it prepares the Bell and polls its links, and
// afterwards it cancels the Bell. The descriptor stays the endpoint's.
func (e *Endpoint) PollFD() int { return e.bell.poller }

// Progress sends and receives what can be at once, without blocking, and reports
// whether that brought anything that a link may wait for, or the Bell was rung since
// it was prepared, as the pump does when it has received something itself. An owner
// who waits on PollFD may call it, to go on waiting when there is only a part of a
// chunk.
func (e *Endpoint) Progress() bool {
	e.pump.turns.Add(1)
	news := false
	for _, c := range e.conns {
		if c.pending.Load() {
			news = c.flush() || news
			c.awaitRoom()
		}
	}
	news = e.bell.look() || news
	return news || !e.bell.sleeping()
}

// MaxPayload is the slot size in bytes.
func (e *Endpoint) MaxPayload() int { return e.layout.SlotBytes }

// Fence orders what was posted before what is loaded afterwards.
func (e *Endpoint) Fence() { e.fence.Store(0) }

// Enter publishes the call that this rank begins. Others hear of it within some
// tenths of a second, or when this rank has nothing to do.
func (e *Endpoint) Enter(h *transport.Header) { e.board.enter(e.rank, h) }

// Reaches says that ranks on other hosts cannot read this one's memory, which is no news.
func (e *Endpoint) Reaches(int) (ok bool, why string) { return false, "" }

// FlushStatus has the pump tell the others of the latest call.
func (e *Endpoint) FlushStatus() {
	e.pump.urgent.Store(true)
	e.pump.kick()
}

// Status returns what rank r told last; it is unknown where there is no
// connection.
func (e *Endpoint) Status(r int) transport.Status {
	if r != e.rank && e.peers[r] == nil {
		return transport.Status{Unknown: true}
	}
	closed := r == e.rank && e.closed.Load() || r != e.rank && e.peers[r].left()
	call, _ := e.board.lookup(r, 0)
	return transport.Status{Call: call, Closed: closed}
}

// CallBefore returns the call that rank r told of back calls before its latest.
func (e *Endpoint) CallBefore(r, back int) (transport.Header, bool) {
	return e.board.lookup(r, back)
}

// on names the host of a rank for messages, with a space before it; "" if it is not known.
func (e *Endpoint) on(r int) string {
	if e.host == nil || e.host(r) == "" {
		return ""
	}
	return " on " + e.host(r)
}

func (e *Endpoint) member(r int) bool { return e.setup.member == nil || e.setup.member(r) }
