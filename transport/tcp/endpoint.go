package tcp

import (
	"errors"
	"fmt"
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
	mesh   *netconn.Mesh // makes connections on demand; nil: there are only those of the start

	peers  []atomic.Pointer[conn]  // by rank; nil: no connection was requested
	conns  atomic.Pointer[[]*conn] // by their numbers; replaced when one is added
	adding sync.Mutex              // held while peers and their connections are added

	board   board
	faults  faults
	bell    bell
	pump    pump
	buffers buffers

	closed   atomic.Bool
	once     sync.Once
	closeErr error
}

// socket is one connection.
type socket struct {
	fd   int
	wire wire
	name string // for messages
}

// newEndpoint makes the endpoint of a rank, without connections, out of the links of its host, which sleep on
// doorbells. It owns them then.
func newEndpoint(cfg *Config, local *shm.Endpoint, mesh *netconn.Mesh) (*Endpoint, error) {
	e := &Endpoint{local: local, cfg: cfg, mesh: mesh, peers: make([]atomic.Pointer[conn], cfg.Layout.Size)}
	e.buffers.slotBytes = cfg.Layout.SlotBytes
	e.board.calls = make([]record, cfg.Layout.Size)
	e.faults = faults{e: e}
	e.bell = bell{Bell: local.Bell().(*shm.Bell), e: e, poller: -1}
	e.pump = pump{e: e, ended: make(chan struct{}), kicked: make(chan struct{}, 1),
		timer: time.NewTimer(time.Hour)}
	e.conns.Store(new([]*conn))
	var err error
	if e.bell.poller, err = osys.NewPoller(); err == nil {
		err = e.pump.event.Open()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tcp: rank %d: %w", e.cfg.Rank, err), e.release())
	}
	go e.pump.run()
	return e, nil
}

// sameHost reports whether rank r is on this rank's host.
func (e *Endpoint) sameHost(r int) bool {
	return r == e.cfg.Rank || e.cfg.Hosts != nil && e.cfg.Hosts[r] == e.cfg.Hosts[e.cfg.Rank]
}

// Sender returns the sending end of a link of this rank.
func (e *Endpoint) Sender(lane, dst int) (transport.Sender, error) {
	if dst >= 0 && dst < e.cfg.Layout.Size && e.sameHost(dst) {
		return e.local.Sender(lane, dst)
	}
	k := transport.Link{Lane: lane, Src: e.cfg.Rank, Dst: dst}
	if p := e.connOf(k, dst); p != nil {
		return p.lanes.sender(k), nil
	}
	return nil, transport.NoLink(k.Lane, k.Src, k.Dst)
}

// Receiver returns the receiving end of a link of this rank.
func (e *Endpoint) Receiver(lane, src int) (transport.Receiver, error) {
	if src >= 0 && src < e.cfg.Layout.Size && e.sameHost(src) {
		return e.local.Receiver(lane, src)
	}
	k := transport.Link{Lane: lane, Src: src, Dst: e.cfg.Rank}
	if p := e.connOf(k, src); p != nil {
		return p.lanes.receiver(k), nil
	}
	return nil, transport.NoLink(k.Lane, k.Src, k.Dst)
}

// Bell is this rank's own bell.
func (e *Endpoint) Bell() transport.Bell { return &e.bell }

// Reaches reports whether this rank and rank r read each other's own memory. It gives no reason for ranks on other
// hosts, which never can.
func (e *Endpoint) Reaches(r int) (ok bool, why string) {
	if e.sameHost(r) {
		return e.local.Reaches(r)
	}
	return false, ""
}

// FlushStatus makes the pump send the latest call to the peers. Otherwise they receive it within some tenths of a
// second, or when this rank is idle.
func (e *Endpoint) FlushStatus() {
	e.pump.urgent.Store(true)
	e.pump.kick()
}

// Status returns the latest status that rank r has sent; it is unknown where there has been no connection.
func (e *Endpoint) Status(r int) transport.Status {
	if e.sameHost(r) {
		return e.local.Status(r)
	}
	p := e.peers[r].Load()
	if p == nil || p.connecting.Load() {
		return transport.Status{Unknown: true}
	}
	closed := p.closed.Load() // before the call: a closed rank enters none
	call, _ := e.board.lookup(r, 0)
	return transport.Status{Call: call, Closed: closed, Sends: true, Ended: p.ended()}
}

// CallBefore returns the call that rank r entered back calls before the latest one it has reported.
func (e *Endpoint) CallBefore(r, back int) (call.Header, bool) {
	if e.sameHost(r) {
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
