package rank

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/rank/job"

	"github.com/treerun/treerun/rank/strict"
)

// meta is what a rank tells about itself through memberlist, as msgpack. Where
// it listens, memberlist knows.
type meta struct {
	Version int
	Rank    int
	Size    int
	Host    string // identity of its host
}

const (
	metaVersion = 1
	maxHostID   = 64
)

// decodeMeta reads the metadata of a node.
func decodeMeta(b []byte) (m meta, err error) {
	if len(b) > memberlist.MetaMaxSize {
		return m, fmt.Errorf("metadata of %d bytes, at most %d are possible", len(b), memberlist.MetaMaxSize)
	}
	if err := strict.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("metadata: %w", err)
	}
	switch {
	case m.Version != metaVersion:
		return m, fmt.Errorf("version %d of the metadata, want %d: the ranks come from different versions of treerun", m.Version, metaVersion)
	case m.Size < 1 || m.Size > job.MaxRanks || m.Rank < 0 || m.Rank >= m.Size:
		return m, fmt.Errorf("metadata of rank %d of %d", m.Rank, m.Size)
	case m.Host == "" || len(m.Host) > maxHostID:
		return m, fmt.Errorf("host identity of %d bytes, want 1..%d", len(m.Host), maxHostID)
	}
	return m, nil
}

// member is what is known of a rank that has joined.
type member struct {
	addr string // HOST:PORT
	host string
}

// members is the list of ranks that memberlist keeps, and the delegate that it
// tells of changes.
type members struct {
	self meta
	raw  []byte // self, encoded
	log  *slog.Logger
	lost func(rank int) // memberlist thinks that a rank that had joined is dead

	list *memberlist.Memberlist

	mu       sync.Mutex
	table    []member // by rank; no address: has not joined
	missing  int
	complete chan struct{} // closed when nobody is missing
	refusal  error         // the first reason why this rank cannot join at all
	hopeless chan struct{} // closed when there is one
	lastErr  error         // why the latest attempt to reach a rank did not succeed
}

var (
	_ memberlist.Delegate         = (*members)(nil)
	_ memberlist.AliveDelegate    = (*members)(nil)
	_ memberlist.EventDelegate    = (*members)(nil)
	_ memberlist.ConflictDelegate = (*members)(nil)
)

func newMembers(self meta, log *slog.Logger, lost func(rank int)) *members {
	raw, err := msgpack.Marshal(&self)
	if err != nil {
		panic(fmt.Sprintf("rank: encoding metadata: %v", err)) // plain fields
	}
	return &members{
		self: self, raw: raw, log: log, lost: lost,
		table: make([]member, self.Size), missing: self.Size,
		complete: make(chan struct{}), hopeless: make(chan struct{}),
	}
}

// open starts memberlist over g. oneHost says that all ranks are on one host.
func (m *members) open(g *gossip, key []byte, label string, oneHost bool) error {
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
	c.GossipInterval = 500 * time.Millisecond
	c.ProbeInterval = time.Second
	c.ProbeTimeout = 500 * time.Millisecond
	c.PushPullInterval = 30 * time.Second
	if oneHost {
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

// join exchanges the list with rank at addr, and says whether that succeeded.
func (m *members) join(rank int, addr string) bool {
	_, err := m.list.Join([]string{strconv.Itoa(rank) + "/" + addr})
	m.mu.Lock()
	m.lastErr = err
	m.mu.Unlock()
	return err == nil
}

// refused hears of an address that did not let this rank in.
func (m *members) refused(addr string, err error) {
	if errors.Is(err, ErrKey) {
		m.cannot(fmt.Errorf("the process at %s %w: it belongs to another job, or its key file differs", addr, ErrKey))
	}
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

// address returns where a rank listens, "" when it has not joined.
func (m *members) address(rank int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table[rank].addr
}

// joined says whether a rank has joined.
func (m *members) joined(rank int) bool { return m.address(rank) != "" }

// absent returns the ranks that have not joined.
func (m *members) absent() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []int
	for r := range m.table {
		if m.table[r].addr == "" {
			list = append(list, r)
		}
	}
	return list
}

// host returns the identity of a rank's host, "" when it has not joined.
func (m *members) host(rank int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table[rank].host
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

// NotifyMsg is for memberlist. There are no messages.
func (m *members) NotifyMsg([]byte) {}

// GetBroadcasts is for memberlist.
func (m *members) GetBroadcasts(overhead, limit int) [][]byte { return nil }

// LocalState is for memberlist.
func (m *members) LocalState(join bool) []byte { return nil }

// MergeRemoteState is for memberlist.
func (m *members) MergeRemoteState(buf []byte, join bool) {}

// NotifyAlive is for memberlist: it lets only ranks of this job in.
func (m *members) NotifyAlive(n *memberlist.Node) error {
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
	if err != nil || t.Size != m.self.Size {
		return // NotifyAlive has refused it
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.table[t.Rank].addr != "" {
		return // back from the dead
	}
	m.table[t.Rank] = member{n.Address(), t.Host}
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
