package netconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// proveTimeout is how long an incoming connection may take to prove itself.
	proveTimeout = 3 * time.Second

	// strangerPlaces is how many connections beside those of peers may be
	// proving themselves at once.
	strangerPlaces = 128

	// hushPerPath is how often a path of a peer may end before it has proved
	// itself, until that counts as a stranger's doing: a faster one was found, or
	// this side or the other got no core for seconds.
	hushPerPath = 4
)

// Connect connects this rank to its peers. All ranks call it at about the same
// time. It returns an error on every rank if any pair of ranks cannot connect:
// the same *UnreachableError. A rank that cannot even begin is told to all,
// too. When ctx ends, or Exchange fails, as it does when a rank dies, its error
// is in the returned one. The caller closes the Mesh.
func Connect(ctx context.Context, cfg Config) (*Mesh, error) {
	if cfg.Exchange == nil {
		return nil, errors.New("netconn: no Exchange function")
	}
	m := &meeting{cfg: cfg, conns: make(map[int][]*Conn)}
	var cancel context.CancelFunc
	m.stop, cancel = context.WithCancel(ctx)
	mesh, err := m.run(ctx)
	if err != nil {
		cancel() // nobody need take his leave any more
	}
	m.wg.Wait()
	cancel()
	m.release()
	if err != nil {
		return nil, fmt.Errorf("netconn: rank %d: connecting %d ranks: %w", cfg.Rank, cfg.Size, err)
	}
	return mesh, nil
}

// meeting is the state of one Connect.
type meeting struct {
	cfg     Config
	session *session
	tls     *tls.Config // nil without encryption
	stop    context.Context
	wg      sync.WaitGroup // goroutines of the dialing side

	mine      []place // as offered
	listeners []*net.TCPListener
	offers    []offer
	door      *Acceptor
	strangers Strangers

	mu    sync.Mutex
	conns map[int][]*Conn    // by peer and stream, nil where there is none yet
	hush  map[netip.Addr]int // how often peers may hang up without a proof, by address
}

// run does the two halves, each followed by the exchange that tells every rank
// how it went everywhere. The accepting side need not wait: the welcome tells
// the dialing side that its connection is in place, so when every rank has
// dialed with success, all are.
func (m *meeting) run(ctx context.Context) (*Mesh, error) {
	mine, err := m.prepare()
	if err != nil {
		mine = offer{failed: err.Error()}
	}
	blobs, failed := m.cfg.Exchange(ctx, mine.encode())
	if failed != nil {
		return nil, errors.Join(err, fmt.Errorf("exchange: %w", failed))
	}
	if m.offers, failed = decodeOffers(blobs, m.cfg.Size); failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	m.receive()
	told := m.dialAll(ctx)
	blobs, err = m.cfg.Exchange(ctx, told.encode())
	if err != nil {
		return nil, fmt.Errorf("exchange: %w", err)
	}
	if len(blobs) != m.cfg.Size {
		return nil, fmt.Errorf("the exchange gave %d blobs for %d ranks", len(blobs), m.cfg.Size)
	}
	reports := make([]report, len(blobs))
	for r, b := range blobs {
		if reports[r], err = decodeReport(b, r, m.cfg.Size); err != nil {
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
	}
	if err := unreachable(reports, m.offers, m.cfg.HostOf); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return m.finish()
}

// prepare listens, and returns what to tell the others.
func (m *meeting) prepare() (o offer, err error) {
	if err = m.cfg.validate(); err != nil {
		return o, err
	}
	if m.session, err = newSession(&m.cfg); err != nil {
		return o, err
	}
	if m.cfg.Encrypt {
		if m.tls, err = newTLS(&m.cfg); err != nil {
			return o, err
		}
	}
	for r := range m.cfg.Size {
		if m.wants(r) {
			if err = m.listenAll(); err != nil {
				return o, err
			}
			break
		}
	}
	o = offer{
		settings: settings{uint16(m.cfg.Streams), m.cfg.Encrypt, uint32(m.cfg.Epoch)},
		host:     hostID(),
		places:   m.mine,
	}
	return o, nil
}

// wants says whether this rank has connections with another.
func (m *meeting) wants(rank int) bool { return rank != m.cfg.Rank && m.cfg.Peers(rank) }

// dialAll connects to all peers of higher rank, which are dialed by this one,
// and returns what did not succeed.
func (m *meeting) dialAll(ctx context.Context) report {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	var all sync.WaitGroup
	var told report
	for peer := m.cfg.Rank + 1; peer < m.cfg.Size; peer++ {
		if !m.wants(peer) {
			continue
		}
		all.Go(func() {
			conns, failed := m.reach(ctx, peer)
			m.mu.Lock()
			defer m.mu.Unlock()
			if failed != nil {
				told.total++
				told.pairs = append(told.pairs, *failed)
				return
			}
			m.conns[peer] = conns
			m.sayConnected(ctx, conns[0])
		})
	}
	all.Wait()
	return told
}

// sayConnected logs, on the dialing side, by which addresses two ranks are
// connected, and the round trip between them.
func (m *meeting) sayConnected(ctx context.Context, c *Conn) {
	level := slog.LevelDebug
	if m.cfg.Verbose {
		level = slog.LevelInfo
	}
	if !m.cfg.Log.Enabled(ctx, level) {
		return
	}
	text := fmt.Sprintf("treerun: rank %d (%s) <-> rank %d (%s)",
		m.cfg.Rank, m.spot(m.cfg.Rank, c.LocalAddr(), false), c.peer, m.spot(c.peer, c.RemoteAddr(), true))
	if rtt, ok := RoundTrip(c.tcp); ok {
		text += fmt.Sprintf(", %.3f ms", rtt.Seconds()*1e3)
	}
	m.cfg.Log.Log(ctx, level, text)
}

// spot says where a rank's end of a connection is: "10.0.0.3:4711, eth0 on
// host c".
func (m *meeting) spot(rank int, at net.Addr, port bool) string {
	end := at.(*net.TCPAddr).AddrPort()
	ip := end.Addr().Unmap().WithZone("")
	text := ip.String()
	if port {
		text = netip.AddrPortFrom(ip, end.Port()).String()
	}
	for _, p := range m.offers[rank].places {
		if p.addr == ip && p.device != "" {
			text += ", " + p.device
			break
		}
	}
	if host := m.cfg.HostOf(rank); host != "" {
		text += " on host " + host
	}
	return text
}

// finish closes the doors and hands the connections over.
func (m *meeting) finish() (*Mesh, error) {
	m.closeDoor()
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := range m.cfg.Size {
		if !m.wants(r) {
			continue
		}
		if len(m.conns[r]) != m.cfg.Streams {
			return nil, fmt.Errorf("rank %d says that it is connected, but its connections are not there", r)
		}
		for _, c := range m.conns[r] {
			if c == nil {
				return nil, fmt.Errorf("rank %d says that it is connected, but a connection is missing", r)
			}
		}
	}
	mesh := &Mesh{conns: m.conns}
	m.conns = nil
	return mesh, nil
}

func (m *meeting) closeDoor() {
	if m.door != nil {
		m.door.Close()
		m.strangers.Summary()
		m.door = nil
	}
}

// release closes what the mesh has not taken over.
func (m *meeting) release() {
	m.closeDoor()
	for _, ln := range m.listeners {
		ln.Close()
	}
	for _, list := range m.conns {
		for _, c := range list {
			if c != nil {
				c.tcp.Close()
			}
		}
	}
}

// noWay says why there is no path to a peer.
func (m *meeting) noWay(peer int) string {
	return fmt.Sprintf("no address of one can be reached from one of the other (%s; %s)", texts(m.mine), texts(m.offers[peer].places))
}

func texts(places []place) string {
	if len(places) == 0 {
		return "none"
	}
	s := ""
	for _, p := range places[:min(len(places), 4)] {
		s += ", " + p.addr.String()
	}
	return s[2:]
}

// receive begins to let peers of lower rank in.
func (m *meeting) receive() {
	if len(m.listeners) == 0 {
		return
	}
	m.hush = make(map[netip.Addr]int)
	places := strangerPlaces
	for r := range m.cfg.Rank {
		if !m.wants(r) {
			continue
		}
		places += m.cfg.Streams
		for _, p := range m.offers[r].places {
			m.hush[p.addr] += hushPerPath * len(m.mine)
		}
	}
	m.strangers.Log = m.cfg.Log.With("rank", m.cfg.Rank)
	m.door = OpenAcceptor(AcceptorConfig{
		Prove: m.prove, Refused: m.strangers.Refused, Wait: proveTimeout, Places: places,
	}, m.listeners...)
}

// prove finds out who is at the other end of an incoming connection.
func (m *meeting) prove(tcp *net.TCPConn) (enter func(), err error) {
	leave := func() { tcp.Close() }
	h, t, err := m.session.answer(tcp, m.expects)
	take := false
	if err == nil {
		take, err = t.verdict(tcp)
	}
	switch {
	case err != nil && m.mayHangUp(tcp, err):
		return leave, nil
	case err != nil:
		return nil, err
	case !take:
		return leave, nil
	}
	return func() { m.accepted(tcp, &h, t) }, nil
}

// mayHangUp says whether a connection that ended early may be one of a peer.
func (m *meeting) mayHangUp(tcp *net.TCPConn, err error) bool {
	if !errors.Is(err, errSilent) && !errors.Is(err, errNoProof) {
		return false
	}
	from := tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hush[from]--
	return m.hush[from] >= 0
}

// expects says whether a hello may come to this rank.
func (m *meeting) expects(h *hello) error {
	switch {
	case h.to != uint32(m.cfg.Rank):
		return fmt.Errorf("it wants rank %d, this is rank %d", h.to, m.cfg.Rank)
	case h.from >= h.to || !m.wants(int(h.from)):
		return fmt.Errorf("rank %d is not expected here", h.from)
	case int(h.stream) >= m.cfg.Streams:
		return fmt.Errorf("stream %d of %d", h.stream, m.cfg.Streams)
	}
	return nil
}

// accepted is the accepting side's part from the verdict on. The welcome goes
// out when everything else is done: then the dialing side counts on this end.
func (m *meeting) accepted(tcp *net.TCPConn, h *hello, t *transcript) {
	c := &Conn{Conn: tcp, tcp: tcp, peer: int(h.from), stream: int(h.stream)}
	at := tcp.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
	for _, p := range m.mine {
		if p.addr == at {
			c.device = p.device
		}
	}
	var bound []byte
	err := SetPeerTimeout(tcp, m.cfg.PeerTimeout)
	if err == nil {
		err = guarded(m.stop, c, sealTimeout, func(ctx context.Context) (err error) {
			bound, err = m.seal(ctx, c, t, false)
			return err
		})
	}
	if err != nil {
		m.cfg.Log.Debug("treerun: a connection failed after its proof", "rank", m.cfg.Rank, "peer", c.peer, "error", err)
		tcp.Close()
		return
	}
	m.mu.Lock()
	if m.conns[c.peer] == nil {
		m.conns[c.peer] = make([]*Conn, m.cfg.Streams)
	}
	if old := m.conns[c.peer][c.stream]; old != nil {
		old.tcp.Close() // the peer lost that one and tries again
	}
	m.conns[c.peer][c.stream] = c
	m.mu.Unlock()
	_ = t.send(c, "welcome", bound...) // when this fails the peer notices, and tries again
}
