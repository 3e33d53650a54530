package rank

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/hashicorp/memberlist"

	"github.com/treerun/treerun/internal/strict"
)

// This file holds the methods of members that memberlist calls.

var (
	_ memberlist.Delegate         = (*members)(nil)
	_ memberlist.AliveDelegate    = (*members)(nil)
	_ memberlist.ConflictDelegate = (*members)(nil)
)

// NodeMeta is for memberlist.
func (m *members) NodeMeta(int) []byte { return strict.Marshal(&m.self) }

// NotifyMsg is for memberlist.
func (m *members) NotifyMsg([]byte) {}

// GetBroadcasts is for memberlist.
func (m *members) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is for memberlist, which sends it behind each list: the addresses that have no room in metadata.
func (m *members) LocalState(bool) []byte {
	all := more{}
	for _, r := range m.ranks(func(r *member) bool { return r.joined() && len(r.more) > 0 }) {
		all[r] = m.entry(r).more
	}
	if len(all) == 0 {
		return nil
	}
	return strict.Marshal(all)
}

// MergeRemoteState is for memberlist, which has merged the list before the call.
func (m *members) MergeRemoteState(b []byte, _ bool) {
	all, err := decodeMore(b, m.self.Size)
	if err != nil {
		m.log.Warn("treerun: a list of ranks cannot be used", "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for rank, addrs := range all {
		if r := &m.table[rank]; !r.joined() && r.port != 0 && r.More == len(addrs) {
			r.more = addrs
			m.countJoined()
		}
	}
}

// countJoined notes that one more rank has joined. The caller holds mu.
func (m *members) countJoined() {
	if m.missing--; m.missing == 0 {
		close(m.complete)
	}
}

// NotifyAlive is for memberlist. It admits only ranks of this job, and an admitted rank has joined: memberlist holds
// its lock until the rank is on its list. Most lists repeat the contents of an earlier one.
func (m *members) NotifyAlive(n *memberlist.Node) error {
	rank, err := strconv.Atoi(n.Name)
	known := err == nil && rank >= 0 && rank < m.self.Size && n.Name == strconv.Itoa(rank) && len(n.Meta) > 0
	if known && bytes.Equal(m.entry(rank).encoded, n.Meta) {
		return nil
	}
	t, err := decodeMeta(n.Meta)
	if err == nil && n.Name != strconv.Itoa(t.Rank) {
		err = fmt.Errorf("metadata of rank %d", t.Rank)
	}
	if err == nil && t.Size != m.self.Size {
		err = fmt.Errorf("the job has %d ranks for rank %d and %d for rank %d", m.self.Size, m.self.Rank, t.Size, t.Rank)
		m.giveUp(err)
	}
	if err != nil {
		return fmt.Errorf("rank %.12s at %s: %w", n.Name, n.Address(), err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.table[t.Rank]
	if r.port != 0 {
		return nil
	}
	r.meta, r.encoded, r.port = t, n.Meta, n.Port // 0: no process listens there
	if r.joined() {
		m.countJoined()
	}
	return nil
}

// NotifyConflict is for memberlist: two processes claim the same rank.
func (m *members) NotifyConflict(existing, other *memberlist.Node) {
	if existing.Name == strconv.Itoa(m.self.Rank) {
		m.giveUp(fmt.Errorf("the process at %s is rank %d, too", other.Address(), m.self.Rank))
		return
	}
	m.log.Warn("treerun: a second process claims the number of a rank that has joined; it is ignored",
		"rank", existing.Name, "first", existing.Address(), "second", other.Address())
}
