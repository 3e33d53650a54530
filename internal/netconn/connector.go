package netconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/treerun/treerun/internal/agree"
)

const (
	// proveTimeout is the time that an incoming connection has for its authentication.
	proveTimeout = 3 * time.Second

	// extraPlaces is the number of connections, in addition to those of peers, that may be in authentication at
	// once.
	extraPlaces = 128
)

// Connect connects this rank to its peers. All ranks call it at about the same time. If any pair of ranks cannot
// connect, it returns the same *UnreachableError on every rank. If a rank cannot even begin, all ranks return its
// error, too. If ctx ends, or Exchange fails, as it does when a rank dies, the returned error wraps that error. The
// caller closes the Mesh.
func Connect(ctx context.Context, cfg Config) (*Mesh, error) {
	if cfg.Exchange == nil {
		return nil, errors.New("netconn: no Exchange function")
	}
	m := &Mesh{cfg: cfg, conns: make(map[int]*Conn), dialing: make(map[int]context.CancelFunc),
		serving: make(chan struct{})}
	m.stop, m.cancel = context.WithCancel(context.WithoutCancel(ctx)) // connections may be made after ctx has ended
	err := m.run(ctx)
	if err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("netconn: rank %d: connecting %d ranks: %w", cfg.Rank, cfg.Size, err)
	}
	if cfg.First == nil {
		m.end()
	}
	return m, nil
}

// Mesh holds the connections of one rank.
type Mesh struct {
	cfg     Config
	session *Session
	stop    context.Context
	cancel  context.CancelFunc // of stop

	mine      []place // as offered
	listeners []net.Listener
	offers    []offer
	acceptor  *Acceptor
	refusals  Refusals

	dials sync.WaitGroup // of Reach

	serving chan struct{} // closed with Serve
	opened  func(rank int, c *Conn, err error)

	mu      sync.Mutex
	conns   map[int]*Conn              // by peer; nil for a peer: handed over
	dialing map[int]context.CancelFunc // by rank that Reach has dialed
}

// run does the two halves, each followed by an exchange of the outcomes on all ranks. The accepting side need not wait:
// the welcome notifies the dialing side that its connection is in place, so when every rank has dialed with success,
// all connections are.
func (m *Mesh) run(ctx context.Context) error {
	mine, err := m.prepare()
	if m.offers, err = agree.Exchange(ctx, m.cfg.Exchange, m.cfg.Size, nil, mine, err); err == nil {
		err = checkOffers(m.offers)
	}
	if err != nil {
		return err
	}
	m.receive()
	reports, err := agree.Exchange(ctx, m.cfg.Exchange, m.cfg.Size, nil, m.dialAll(ctx), nil)
	for r := 0; r < len(reports) && err == nil; r++ {
		if err = reports[r].check(m.cfg.Size); err != nil {
			err = fmt.Errorf("the list of failures of rank %d: %w", r, err)
		}
	}
	if err != nil {
		return err
	}
	if err := Unreachable(reports, m.cfg.HostOf, "--iface", "--port-range"); err != nil {
		return errors.Join(err, m.acceptor.Failed(), context.Cause(ctx))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := range m.cfg.Size {
		if m.mayConnect(r) && m.isFirst(r) && m.conns[r] == nil {
			return fmt.Errorf("rank %d reports that it is connected, but its connection is missing", r)
		}
	}
	return nil
}

// prepare starts to listen, and returns this rank's offer.
func (m *Mesh) prepare() (o offer, err error) {
	if err = m.cfg.validate(); err != nil {
		return o, err
	}
	if m.session, err = newSession(&m.cfg); err != nil {
		return o, err
	}
	for r := range m.cfg.Size {
		if m.mayConnect(r) {
			if err = m.listenAll(); err != nil {
				return o, err
			}
			break
		}
	}
	return offer{Settings: settings{m.cfg.Encrypt, m.cfg.Epoch, m.cfg.Use}, Host: HostID(), Places: m.mine}, nil
}

// mayConnect reports whether this rank may have a connection with another, and isFirst whether Connect makes it.
func (m *Mesh) mayConnect(rank int) bool {
	return rank != m.cfg.Rank && rank >= 0 && rank < m.cfg.Size && (m.cfg.Peers == nil || m.cfg.Peers(rank))
}

func (m *Mesh) isFirst(rank int) bool { return m.cfg.First == nil || m.cfg.First(rank) }

// dialAll connects to all peers of higher rank, which this rank dials, and returns the failures.
func (m *Mesh) dialAll(ctx context.Context) Report {
	ctx, cancel := context.WithTimeoutCause(ctx, m.cfg.Timeout, errTimeUp)
	defer cancel()
	var all sync.WaitGroup
	var report Report
	for peer := m.cfg.Rank + 1; peer < m.cfg.Size; peer++ {
		if !m.mayConnect(peer) || !m.isFirst(peer) {
			continue
		}
		all.Go(func() {
			c, failed := m.reach(ctx, peer)
			m.mu.Lock()
			defer m.mu.Unlock()
			if failed != nil {
				report.Add(m.cfg.Rank, peer, m.cfg.HostOf, failed)
				return
			}
			m.conns[peer] = c
		})
	}
	all.Wait()
	return report
}

// logConnected logs, on the dialing side, the addresses by which two ranks are connected, and the round-trip time
// between them.
func (m *Mesh) logConnected(ctx context.Context, w path, c *Conn) {
	level := slog.LevelDebug
	if m.cfg.Verbose {
		level = slog.LevelInfo
	}
	if !m.cfg.Log.Enabled(ctx, level) {
		return
	}
	text := fmt.Sprintf("treerun: rank %d%s <-> rank %d%s", m.cfg.Rank, where(w.from.host(), m.cfg.HostOf(m.cfg.Rank)),
		c.peer, where(w.at.String(), m.cfg.HostOf(c.peer)))
	if rtt, ok := roundTrip(c.TCP()); ok {
		text += fmt.Sprintf(", %.3f ms", rtt.Seconds()*1e3)
	}
	m.cfg.Log.Log(ctx, level, text)
}

// end stops making connections.
func (m *Mesh) end() {
	m.cancel()
	if m.acceptor != nil {
		m.acceptor.Close()
	}
	m.dials.Wait()
	for _, ln := range m.listeners {
		ln.Close()
	}
}

// Close closes all connections but those that Serve has handed over, and makes no more.
func (m *Mesh) Close() error {
	m.end()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		if c != nil {
			_ = c.raw.Close()
		}
	}
	return nil
}

func placeList(places []place) string {
	if len(places) == 0 {
		return "none"
	}
	s := ""
	for _, p := range places[:min(len(places), 4)] {
		s += ", " + p.Addr.String()
	}
	return s[2:]
}

// receive starts to accept peers of lower rank.
func (m *Mesh) receive() {
	if len(m.listeners) == 0 {
		return
	}
	m.refusals.Log = m.cfg.Log.With("rank", m.cfg.Rank)
	m.acceptor = OpenAcceptor(AcceptorConfig{
		Prove: m.prove, Refused: m.refusals.Refused, Log: m.refusals.Log, Wait: proveTimeout,
		Places: extraPlaces + m.cfg.Size,
	}, m.listeners...)
}

// prove authenticates the other end of an incoming connection.
func (m *Mesh) prove(raw net.Conn) (enter func(), err error) {
	c, err := m.session.Accept(raw, m.checkHello)
	if err != nil {
		return nil, err
	}
	return func() { m.accepted(c) }, nil
}

// checkHello returns an error for a hello that this rank does not expect.
func (m *Mesh) checkHello(h *Hello) error {
	switch {
	case h.To != m.cfg.Rank:
		return fmt.Errorf("it wants rank %d, this is rank %d", h.To, m.cfg.Rank)
	case !m.mayConnect(h.From), h.From > h.To && m.isFirst(h.From):
		return fmt.Errorf("rank %d is not expected here", h.From)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crossing(h.From) {
		return errCrossing
	}
	return nil
}

// accepted runs the accepting side from the proof on. The welcome is sent last: from then on the dialing side relies on
// this end.
func (m *Mesh) accepted(c *Conn) {
	at := addrOf(c.raw.LocalAddr())
	for _, p := range m.mine {
		if p.Addr == at {
			c.device = p.Device
		}
	}
	err := SetPeerTimeout(c.TCP(), m.cfg.PeerTimeout)
	if err == nil {
		err = c.Seal(m.stop)
	}
	if err != nil {
		m.cfg.Log.Debug("treerun: a connection failed after its proof", "rank", m.cfg.Rank, "peer", c.peer, "error", err)
		c.raw.Close()
		return
	}
	m.mu.Lock()
	old, come := m.conns[c.peer]
	if come && old == nil || m.crossing(c.peer) { // already handed over, or this rank dials
		m.mu.Unlock()
		c.raw.Close()
		return
	}
	if stop := m.dialing[c.peer]; stop != nil {
		stop() // the incoming connection is kept
	}
	if old != nil {
		old.raw.Close() // the peer lost that one and tries again
	}
	m.conns[c.peer] = c
	m.mu.Unlock()
	if c.Welcome() == nil && !m.isFirst(c.peer) { // if it fails the peer notices, and tries again
		m.handOver(c.peer)
	}
}
