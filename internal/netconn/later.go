package netconn

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// Ranks that are not connected at once (Config.First) are so when one of a pair asks: it dials. Where both do at the
// same time the lower one's connection stands: it refuses the other's, which then ends its attempts.

// Serve has all connections handed over, those that come later as they come, whichever rank has dialed; or
// an error: the *UnreachableError of a rank that this one was to Reach. opened is called concurrently, and not after
// Close.
func (m *Mesh) Serve(opened func(rank int, c *Conn, err error)) {
	m.opened = opened
	for _, r := range m.Peers() {
		if !m.isFirst(r) {
			continue // it may be about to be welcomed: handOver is for it
		}
		if c := m.take(r); c != nil {
			opened(r, c, nil)
		}
	}
	close(m.serving)
}

// Peers returns the ranks that this one is or was connected to, in order.
func (m *Mesh) Peers() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.conns))
}

// Conn returns the connection to a rank, nil where there is none or it is handed over.
func (m *Mesh) Conn(rank int) *Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conns[rank]
}

// take returns the connection to a rank for whom it is handed over to, nil where that is done.
func (m *Mesh) take(rank int) *Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.conns[rank]
	m.conns[rank] = nil
	return c
}

// Reach connects this rank with another one, unless one of the two has begun to already. It does not
// wait for that. Serve has been called.
func (m *Mesh) Reach(rank int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, come := m.conns[rank]
	if come || !m.wants(rank) || m.dialing[rank] != nil || m.stop.Err() != nil {
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

// errCrossing is why a connection is refused to a rank that this one is dialing itself.
var errCrossing = errors.New("this rank is connecting to it already")

// crossing says whether a connection that comes from a rank does not stand, as this rank has dialed it.
func (m *Mesh) crossing(from int) bool { return m.cfg.Rank < from && m.dialing[from] != nil }

// handOver gives a connection that has come later away, unless that is done.
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
