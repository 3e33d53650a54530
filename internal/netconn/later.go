package netconn

import (
	"context"
	"errors"
)

// latePeers is what a Mesh knows of the ranks that it may connect to when somebody asks (Config.Later). Either rank of
// a pair dials when it asks first. Where both do at once the lower one's connection stands: it refuses the other's,
// which then ends its attempts. All of it is under the connector's mu.
type latePeers struct {
	dialing map[int]context.CancelFunc // by rank: this rank has dialed it
	serving chan struct{}              // closed with Serve
	opened  func(rank int, c *Conn, err error)
}

// Serve has the connections with the ranks of Config.Later handed over as they come, whichever rank has dialed; or
// an error: the *UnreachableError of a rank that this one was to Reach. opened is called concurrently, and not after
// Close.
func (m *Mesh) Serve(opened func(rank int, c *Conn, err error)) {
	if l := &m.later.late; m.later.cfg.Later != nil {
		l.opened = opened
		close(l.serving)
	}
}

// Reach connects this rank with another one of Config.Later, unless one of the two has begun to already. It does not
// wait for that. Serve has been called.
func (m *Mesh) Reach(rank int) {
	c := m.later
	c.mu.Lock()
	defer c.mu.Unlock()
	_, come := c.conns[rank]
	if come || !c.isLate(rank) || c.late.dialing[rank] != nil || c.stop.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(c.stop, c.cfg.Timeout, errTimeUp)
	c.late.dialing[rank] = cancel
	c.dials.Go(func() {
		defer cancel()
		conn, failed := c.reach(ctx, rank)
		c.mu.Lock()
		_, crossed := c.conns[rank]
		c.mu.Unlock()
		switch {
		case failed == nil:
			c.late.opened(rank, conn, nil)
		case c.stop.Err() == nil && !crossed:
			reports := make([]Report, c.cfg.Size)
			reports[c.cfg.Rank].Add(c.cfg.Rank, rank, c.cfg.HostOf, failed)
			c.late.opened(rank, nil, Unreachable(reports, c.cfg.HostOf, "--iface", "--port-range"))
		}
	})
}

// isLate says whether a rank is one of Config.Later.
func (m *connector) isLate(rank int) bool {
	return m.cfg.Later != nil && rank != m.cfg.Rank && rank >= 0 && rank < m.cfg.Size &&
		!m.wants(rank) && m.cfg.Later(rank)
}

// errCrossing is why a connection is refused to a rank that this one is dialing itself.
var errCrossing = errors.New("this rank is connecting to it already")

// crossing says whether a connection that comes from a rank does not stand, as this rank has dialed it.
func (m *connector) crossing(from int) bool { return m.cfg.Rank < from && m.late.dialing[from] != nil }

// handOver gives the connection with a rank of Config.Later away, unless that is done.
func (m *connector) handOver(rank int) {
	m.mu.Lock()
	c := m.conns[rank]
	m.conns[rank] = nil
	m.mu.Unlock()
	if c == nil {
		return
	}
	select {
	case <-m.late.serving:
		m.late.opened(rank, c, nil)
	case <-m.stop.Done():
		_ = c.raw.Close()
	}
}

// closeAll closes connections.
func closeAll(conns map[int]*Conn) {
	for _, c := range conns {
		if c != nil {
			_ = c.raw.Close()
		}
	}
}
