package rank

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/treerun/treerun/internal/netconn"
)

// This file is what members knows of the ways to ranks.

// where returns the addresses at which a rank may listen: where it was reached
// before, then those that it offers; before it has joined, those that rank 0 is
// said to have.
func (m *members) where(rank int) []netip.AddrPort {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rank < 0 || rank >= len(m.table) {
		return nil
	}
	var all []netip.AddrPort
	t := &m.table[rank]
	if t.route.IsValid() {
		all = append(all, t.route)
	}
	for _, o := range t.offers {
		at := netip.AddrPortFrom(o.ip, t.port)
		switch {
		case at == t.route:
		case o.ip == t.from: // likely the best
			all = slices.Insert(all, 0, at)
		default:
			all = append(all, at)
		}
	}
	if len(all) == 0 && rank == 0 {
		all = m.seeds
	}
	return reachable(all, m.zones)
}

// reach opens a connection to a rank, and notes where it was reached, or why
// not.
func (m *members) reach(ctx context.Context, g *authenticator, to int, ch channel) (net.Conn, error) {
	m.dialed.Add(1)
	conn, err := g.dial(ctx, m.where(to), to, ch)
	m.mu.Lock()
	switch {
	case err != nil && (ctx.Err() == nil || m.failing[to] == nil): // else the time was up too early to learn anything
		m.failing[to] = err
	case err == nil:
		delete(m.failing, to)
		at := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
		m.table[to].route = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	m.mu.Unlock()
	var u *netconn.UnreachedError
	if errors.As(err, &u) && u.AllSay(netconn.ErrKey) {
		m.cannot(fmt.Errorf("the process at %s %w: it belongs to another job or epoch, or its key file differs",
			u.Attempts[0].At, ErrKey))
	}
	return conn, err
}

// failed returns the ranks that were not reached at the latest attempt.
func (m *members) failed() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.failing))
}

// trouble returns why a rank was not reached at the latest attempt, nil when it
// was.
func (m *members) trouble(rank int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failing[rank]
}

// came notes where a rank came from.
func (m *members) came(rank int, from net.Addr) {
	ip := from.(*net.TCPAddr).AddrPort().Addr().Unmap()
	m.mu.Lock()
	defer m.mu.Unlock()
	if rank < len(m.table) {
		m.table[rank].from = ip.WithZone("")
	}
}
