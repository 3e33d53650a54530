package netconn

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// A pair of ranks that Connect does not connect (Config.First) is connected when one of the two calls Reach, and that
// rank dials. If both do so at the same time, the connection of the lower rank is kept: the lower rank refuses the
// other's connection, and the other then ends its attempts.

// Serve hands all connections over to opened, later ones as they are established, regardless of the rank that dialed.
// In place of a connection, opened may receive an error: the *UnreachableError of a rank passed to Reach. opened is
// called concurrently, and not after Close.
func (m *Mesh) Serve(opened func(rank int, c *Conn, err error)) {
	m.opened = opened
	for _, r := range m.Peers() {
		if !m.isFirst(r) {
			continue // its welcome may not be sent yet: handOver hands it over
		}
		if c := m.take(r); c != nil {
			opened(r, c, nil)
		}
	}
	close(m.serving)
}

// Peers returns the ranks that this rank is or was connected to, in increasing order.
func (m *Mesh) Peers() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.conns))
}

// Conn returns the connection to a rank, nil if there is none or it has been handed over.
func (m *Mesh) Conn(rank int) *Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conns[rank]
}

// take returns the connection to a rank for its new owner, nil if it has been handed over.
func (m *Mesh) take(rank int) *Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.conns[rank]
	m.conns[rank] = nil
	return c
}

// Reach connects this rank with another one, unless one of the two has already begun to. It does not wait for the
// connection. It must be called after Serve.
func (m *Mesh) Reach(rank int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, come := m.conns[rank]
	if come || !m.mayConnect(rank) || m.dialing[rank] != nil || m.stop.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(m.stop, m.cfg.Timeout, errTimeUp)
	m.dialing[rank] = cancel
	m.dials.Go(func() {
		defer cancel()
		conn, failed := m.reach(ctx, rank)
		m.mu.Lock()
		_, crossed := m.conns[rank]
		m.mu.Unlock()
		switch {
		case failed == nil:
			m.opened(rank, conn, nil)
		case m.stop.Err() == nil && !crossed:
			reports := make([]Report, m.cfg.Size)
			reports[m.cfg.Rank].Add(m.cfg.Rank, rank, m.cfg.HostOf, failed)
			m.opened(rank, nil, Unreachable(reports, m.cfg.HostOf, "--iface", "--port-range"))
		}
	})
}

// errCrossing is the reason for which a connection from a rank that this rank is dialing is refused.
var errCrossing = errors.New("this rank is connecting to it already")

// crossing reports whether a connection from a rank must be refused because this rank has dialed it.
func (m *Mesh) crossing(from int) bool { return m.cfg.Rank < from && m.dialing[from] != nil }

// handOver hands a later connection over, unless that has been done.
func (m *Mesh) handOver(rank int) {
	c := m.take(rank)
	if c == nil {
		return
	}
	select {
	case <-m.serving:
		m.opened(rank, c, nil)
	case <-m.stop.Done():
		_ = c.raw.Close()
	}
}
