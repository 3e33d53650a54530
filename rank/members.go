package rank

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
)

// member is this rank's knowledge of a rank.
type member struct {
	meta                   // sent by the rank about itself; zeros until it has joined
	encoded []byte         // the encoded meta, as received
	more    []netip.Addr   // that it offers in addition to those in meta, once received
	port    uint16         // at which it listens; 0: it has not joined
	route   netip.AddrPort // where it was reached; not valid: not reached yet
	source  netip.Addr     // where it last came from; not valid: it did not
	dialErr error          // why it could not be reached at the latest attempt
}

// joined reports whether all addresses that a rank offers are known.
func (r *member) joined() bool { return r.port != 0 && len(r.more) == r.More }

// offered returns the addresses at which a rank listens, none before it has joined.
func (r member) offered() (all []netip.AddrPort) {
	for _, ip := range slices.Concat(r.Addrs, r.more) {
		all = append(all, netip.AddrPortFrom(ip, r.port))
	}
	return all
}

// members is the list of ranks that memberlist keeps, and the delegate that it notifies of changes.
type members struct {
	self   meta
	host   string       // name of this rank's host, in full
	own    []netip.Addr // of this host, whether it offers them or not
	log    *slog.Logger
	auth   *authenticator
	giveUp func(err error) // this rank cannot join at all

	list     *memberlist.Memberlist
	dialed   atomic.Int64  // connections to ranks, also those that failed
	complete chan struct{} // closed when all ranks have joined

	mu      sync.Mutex
	seeds   []netip.AddrPort // where rank 0 is expected to listen
	zones   []string         // devices with addresses of one link
	table   []member         // by rank
	missing int
	lastErr error // why the latest exchange of lists did not succeed
}

func newMembers(cfg *config, auth *authenticator) *members {
	m := &members{
		self: newMeta(cfg), host: cfg.Host, log: cfg.log, auth: auth, table: make([]member, cfg.Size), missing: cfg.Size,
		complete: make(chan struct{}),
	}
	if cfg.place != nil {
		m.table, m.missing = cfg.place.table, 0
		close(m.complete)
	}
	return m
}

// use makes the addresses of n those that the rank offers.
func (m *members) use(n *network) {
	m.offer(n.ips())
	for _, a := range slices.Concat(n.offered, n.left) {
		if !a.IP.IsLoopback() {
			m.own = append(m.own, a.IP.WithZone(""))
		}
	}
	m.mu.Lock()
	m.zones = n.zones
	m.mu.Unlock()
}

// open starts memberlist over s.
func (m *members) open(s *streams, cfg *config) error {
	c := memberlist.DefaultLANConfig()
	c.Name = strconv.Itoa(m.self.Rank)
	c.Transport, c.SecretKey = s, cfg.Key("memberlist")
	c.Delegate, c.Alive, c.Conflict = m, m, m
	c.EnableCompression = false
	c.RequireNodeNames = true
	// memberlist starts nothing by itself: ranks join by exchanging lists, and the mesh (package exchange) detects
	// lost ranks.
	c.GossipInterval, c.ProbeInterval, c.PushPullInterval = 0, 0, 0
	c.TCPTimeout = 2 * time.Second
	c.Logger = log.New(io.Discard, "", 0)
	if m.log.Enabled(context.Background(), slog.LevelDebug) {
		c.Logger = slog.NewLogLogger(m.log.Handler(), slog.LevelDebug)
	}
	list, err := memberlist.Create(c)
	if err != nil {
		s.Shutdown()
		return fmt.Errorf("memberlist: %w", err)
	}
	m.list = list
	return nil
}

// offer sets the addresses that this rank offers: the first ones in its metadata, the others with its lists.
func (m *members) offer(all []netip.Addr) {
	first, more := splitAddrs(all)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self.Addrs, m.self.More = first, len(more)
	m.table[m.self.Rank].more = more
}

// join exchanges the list with a rank, and reports whether that succeeded.
func (m *members) join(rank int) bool {
	at := m.addresses(rank)
	if len(at) == 0 {
		return false
	}
	// The transport dials by the name alone, at all addresses.
	addr := netip.AddrPortFrom(at[0].Addr().WithZone(""), at[0].Port())
	_, err := m.list.Join([]string{strconv.Itoa(rank) + "/" + addr.String()})
	m.mu.Lock()
	m.lastErr = err
	m.mu.Unlock()
	return err == nil
}

// entry returns the entry of a rank.
func (m *members) entry(rank int) member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table[rank]
}

// ranks returns the ranks of which a condition holds.
func (m *members) ranks(holds func(r *member) bool) (list []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := range m.table {
		if holds(&m.table[r]) {
			list = append(list, r)
		}
	}
	return list
}

// absent returns the ranks that have not joined.
func (m *members) absent() []int { return m.ranks(func(r *member) bool { return !r.joined() }) }

// unreached returns the ranks that were not reached at the latest attempt.
func (m *members) unreached() []int { return m.ranks(func(r *member) bool { return r.dialErr != nil }) }

// elsewhere reports whether a rank has joined on another host than this one.
func (m *members) elsewhere(rank int) bool {
	host := m.entry(rank).Host
	return host != "" && host != m.self.Host
}

// severalHosts reports whether any rank has joined on another host.
func (m *members) severalHosts() bool {
	return m.ranks(func(r *member) bool { return r.Host != "" && r.Host != m.self.Host }) != nil
}

// hostName returns the name of a rank's host, for users to read.
func (m *members) hostName(rank int) string {
	if rank == m.self.Rank {
		return m.host
	}
	return m.entry(rank).Name
}

// onHost returns " on host c", for messages about a rank, where ranks are on several hosts.
func (m *members) onHost(rank int) string {
	if name := m.entry(rank).Name; name != "" && m.severalHosts() {
		return " on host " + name
	}
	return ""
}

// process returns the process of another rank on this host, and its state.
func (m *members) process(rank int) (pid int, s job.ProcState) {
	if rank == m.self.Rank || rank < 0 || rank >= m.self.Size {
		return 0, job.ProcState{}
	}
	r := m.entry(rank)
	if r.Host != m.self.Host || r.Space == 0 || r.Space != m.self.Space {
		return 0, job.ProcState{} // on another host, or its number means nothing here
	}
	return r.PID, job.ReadProc(r.PID)
}

// addresses returns the addresses at which a rank may listen: where it was reached before, where it came from, then the
// others that it offers; before it has joined, those that rank 0 is expected to have. An address that this host has,
// too, leads back to this host: it comes last where the rank's host is not known, and is left out where it is another.
func (m *members) addresses(rank int) []netip.AddrPort {
	r, elsewhere := m.entry(rank), m.elsewhere(rank)
	all := slices.DeleteFunc(r.offered(), func(at netip.AddrPort) bool {
		return at == r.route || elsewhere && slices.Contains(m.own, at.Addr())
	})
	if i := slices.IndexFunc(all, func(at netip.AddrPort) bool { return at.Addr() == r.source }); i >= 0 {
		all = slices.Insert(slices.Delete(all, i, i+1), 0, netip.AddrPortFrom(r.source, r.port))
	}
	if r.route.IsValid() {
		all = slices.Insert(all, 0, r.route)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.port == 0 && rank == 0 {
		ours := func(at netip.AddrPort) bool { return slices.Contains(m.own, at.Addr()) }
		all = slices.DeleteFunc(slices.Clone(m.seeds), ours)
		for _, at := range m.seeds {
			if ours(at) {
				all = append(all, at)
			}
		}
	}
	return reachable(all, m.zones)
}

// reachable returns the addresses to try for the given ones, in order. Addresses of one link are tried on every device
// that has one; zones names them.
func reachable(all []netip.AddrPort, zones []string) (list []netip.AddrPort) {
	for _, a := range all {
		if !needsZone(a.Addr()) || a.Addr().Zone() != "" {
			list = append(list, a)
			continue
		}
		for _, z := range zones {
			list = append(list, netip.AddrPortFrom(a.Addr().WithZone(z), a.Port()))
		}
	}
	return list
}

// reach opens a connection to a rank, and records where it was reached, or why not.
func (m *members) reach(ctx context.Context, to int, ch channel) (net.Conn, error) {
	m.dialed.Add(1)
	conn, err := m.auth.dial(ctx, m.addresses(to), to, ch)
	m.mu.Lock()
	r := &m.table[to]
	switch {
	case err != nil && (ctx.Err() == nil || r.dialErr == nil): // else the time was up too early to learn anything
		r.dialErr = err
	case err == nil:
		r.dialErr = nil
		at := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
		r.route = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	m.mu.Unlock()
	if u := netconn.Unreached(err); u != nil && u.AllFailedWith(netconn.ErrKey) {
		m.giveUp(fmt.Errorf("the process at %s %w: it belongs to another job or epoch, or its key file differs",
			u.Attempts[0].At, ErrKey))
	}
	return conn, err
}

// noteSource records where a rank came from.
func (m *members) noteSource(rank int, from net.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rank < len(m.table) {
		m.table[rank].source = from.(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
	}
}
