package rank

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// member is what is known of a rank that has joined.
type member struct {
	offers []endpoint
	port   uint16         // 0: has not joined
	meta   []byte         // what it says of itself
	route  netip.AddrPort // where it was reached; not valid: nowhere yet
	from   netip.Addr     // where it last came from; not valid: it did not
	host   string         // identity
	name   string         // of the host, for people
	pid    int            // of its process
	space  uint64         // namespace of pid
}

// members is the list of ranks that memberlist keeps, and the delegate that it
// tells of changes.
type members struct {
	self meta
	raw  []byte // self, encoded, once the addresses are known
	log  *slog.Logger
	lost func(rank int) // memberlist thinks that a rank that had joined is dead

	list   *memberlist.Memberlist
	dialed atomic.Int64 // connections to ranks, also those that failed

	mu       sync.Mutex
	seeds    []netip.AddrPort // where rank 0 is said to listen
	zones    []string         // devices with addresses of one link
	failing  map[int]error    // ranks that could not be reached at the latest attempt
	table    []member         // by rank
	missing  int
	complete chan struct{} // closed when nobody is missing
	refusal  error         // the first reason why this rank cannot join at all
	hopeless chan struct{} // closed when there is one
	lastErr  error         // why the latest exchange of lists did not succeed
	reports  reports       // for rank 0
}

var (
	_ memberlist.Delegate         = (*members)(nil)
	_ memberlist.AliveDelegate    = (*members)(nil)
	_ memberlist.EventDelegate    = (*members)(nil)
	_ memberlist.ConflictDelegate = (*members)(nil)
)

func newMembers(cfg *config, lost func(rank int)) *members {
	id := cfg.hostID
	if id == "" {
		id = hostID()
	}
	return &members{
		self: meta{Version: metaVersion, Rank: cfg.Rank, Size: cfg.Size, Host: id,
			Name: cfg.Host[:min(len(cfg.Host), maxHostName)], PID: os.Getpid(), Space: pidSpace()},
		log: cfg.log, lost: lost, reports: reports{came: make(chan struct{}, 1)}, failing: map[int]error{},
		table: make([]member, cfg.Size), missing: cfg.Size,
		complete: make(chan struct{}), hopeless: make(chan struct{}),
	}
}

// setNetwork notes which addresses this rank offers.
func (m *members) setNetwork(n *network) {
	m.self.Addrs = packAddresses(n.offered)
	m.raw = m.self.encode()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.zones = n.zones
}

// setSeeds notes where rank 0 is said to listen.
func (m *members) setSeeds(seeds []netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seeds = seeds
}

// open starts memberlist over g.
func (m *members) open(g *gossip, key []byte, label string, cfg *config) error {
	c := memberlist.DefaultLANConfig()
	c.Name = strconv.Itoa(m.self.Rank)
	c.Transport = g
	c.Label, c.SecretKey = label, key
	c.Delegate, c.Alive, c.Events, c.Conflict = m, m, m, m
	c.EnableCompression = false
	c.RequireNodeNames = true
	// Joining does not wait for gossip, so that it can be slow from the start:
	// it is there to find hosts that are lost. On one host there are none, and
	// nothing that memberlist would have to do of its own accord.
	// The mesh finds a lost host earlier (heartbeat.go): a rank has to be silent
	// for longer than the peer timeout before memberlist calls it dead.
	c.GossipInterval = 500 * time.Millisecond
	c.ProbeInterval = cfg.parsed.PeerTimeout / 5
	c.ProbeTimeout = c.ProbeInterval / 2
	c.SuspicionMult = 6
	c.PushPullInterval = 30 * time.Second
	if cfg.OneHost() {
		c.GossipInterval, c.ProbeInterval, c.PushPullInterval = 0, 0, 0
	}
	c.TCPTimeout = 2 * time.Second
	c.Logger = m.logger()
	list, err := memberlist.Create(c)
	if err != nil {
		g.Shutdown()
		return fmt.Errorf("memberlist: %w", err)
	}
	m.list = list
	return nil
}

// logger passes memberlist's words on to level Debug, if anybody listens.
func (m *members) logger() *log.Logger {
	if !m.log.Enabled(context.Background(), slog.LevelDebug) {
		return log.New(io.Discard, "", 0)
	}
	return slog.NewLogLogger(m.log.Handler(), slog.LevelDebug)
}

// join exchanges the list with a rank, and says whether that succeeded.
func (m *members) join(rank int) bool {
	at := m.where(rank)
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

// cannot notes why this rank cannot join.
func (m *members) cannot(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refusal == nil {
		m.refusal = err
		close(m.hopeless)
	}
}

// whyHopeless returns why this rank cannot join, nil when it can.
func (m *members) whyHopeless() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refusal
}

// joined says whether a rank has joined.
func (m *members) joined(rank int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table[rank].port != 0
}

// absent returns the ranks that have not joined.
func (m *members) absent() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []int
	for r := range m.table {
		if m.table[r].port == 0 {
			list = append(list, r)
		}
	}
	return list
}

// name returns the name of a rank's host, "" when it has not joined.
func (m *members) name(rank int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table[rank].name
}

// elsewhere says whether a rank has joined on another host than this one.
func (m *members) elsewhere(rank int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	host := m.table[rank].host
	return host != "" && host != m.self.Host
}

// severalHosts says whether any rank has joined on another host.
func (m *members) severalHosts() bool {
	for r := range m.table {
		if m.elsewhere(r) {
			return true
		}
	}
	return false
}

// hostIDs returns the identities of the hosts, by rank.
func (m *members) hostIDs() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := make([]string, len(m.table))
	for r := range m.table {
		ids[r] = m.table[r].host
	}
	return ids
}

func (m *members) close() {
	if m.list != nil {
		m.list.Shutdown() // returns no error that is not logged
	}
}

// NodeMeta is for memberlist.
func (m *members) NodeMeta(limit int) []byte { return m.raw }

// NotifyMsg is for memberlist: a rank reports whom it could not reach.
func (m *members) NotifyMsg(b []byte) {
	r, err := decodeReport(b, m.self.Size)
	if err != nil {
		m.log.Debug("treerun: a message that is no report", "error", err)
		return
	}
	m.reports.add(r)
}

// GetBroadcasts is for memberlist.
func (m *members) GetBroadcasts(overhead, limit int) [][]byte { return nil }

// LocalState is for memberlist.
func (m *members) LocalState(join bool) []byte { return nil }

// MergeRemoteState is for memberlist.
func (m *members) MergeRemoteState(buf []byte, join bool) {}

// NotifyAlive is for memberlist: it lets only ranks of this job in.
func (m *members) NotifyAlive(n *memberlist.Node) error {
	if r, err := strconv.Atoi(n.Name); err == nil && m.knows(r, n.Meta) {
		return nil
	}
	t, err := decodeMeta(n.Meta)
	if err == nil && n.Name != strconv.Itoa(t.Rank) {
		err = fmt.Errorf("metadata of rank %d", t.Rank)
	}
	if err == nil && t.Size != m.self.Size {
		err = fmt.Errorf("the job has %d ranks for rank %d and %d for rank %d", m.self.Size, m.self.Rank, t.Size, t.Rank)
		m.cannot(err)
	}
	if err != nil {
		return fmt.Errorf("rank %.12s at %s: %w", n.Name, n.Address(), err)
	}
	return nil
}

// knows says whether a rank has joined with the same metadata.
func (m *members) knows(rank int, meta []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return rank >= 0 && rank < len(m.table) && m.table[rank].port != 0 && bytes.Equal(m.table[rank].meta, meta)
}

// NotifyConflict is for memberlist: two processes are the same rank.
func (m *members) NotifyConflict(existing, other *memberlist.Node) {
	if existing.Name == strconv.Itoa(m.self.Rank) {
		m.cannot(fmt.Errorf("the process at %s is rank %d, too", other.Address(), m.self.Rank))
		return
	}
	m.log.Warn("treerun: a second process says that it is a rank that has joined; it is ignored",
		"rank", existing.Name, "first", existing.Address(), "second", other.Address())
}

// NotifyJoin is for memberlist.
func (m *members) NotifyJoin(n *memberlist.Node) {
	t, err := decodeMeta(n.Meta)
	if err != nil || t.Size != m.self.Size || n.Port == 0 {
		return // NotifyAlive has refused it
	}
	offers, err := unpackAddresses(t.Addrs)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.table[t.Rank].port != 0 {
		return // back from the dead
	}
	r := &m.table[t.Rank] // where it was reached may be known before
	r.offers, r.port, r.host, r.name, r.meta = offers, n.Port, t.Host, t.Name, n.Meta
	r.pid, r.space = t.PID, t.Space
	if m.missing--; m.missing == 0 {
		close(m.complete)
	}
}

// NotifyLeave is for memberlist.
func (m *members) NotifyLeave(n *memberlist.Node) {
	if r, err := strconv.Atoi(n.Name); err == nil && r != m.self.Rank {
		m.lost(r)
	}
}

// NotifyUpdate is for memberlist.
func (m *members) NotifyUpdate(*memberlist.Node) {}

// labelOf makes memberlist's label from a derived key.
func labelOf(key []byte) string { return hex.EncodeToString(key[:8]) }
