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
	coming  map[int][]*Conn            // by rank: it has dialed this one; its streams
	serving chan struct{}              // closed with Serve
	opened  func(rank int, conns []*Conn, err error)
}

// Serve has the connections with the ranks of Config.Later handed over as they come, all streams of a rank at a time,
// whichever rank has dialed; or an error: the *UnreachableError of a rank that this one was to Reach. opened is called
// concurrently, and not after Close.
func (m *Mesh) Serve(opened func(rank int, conns []*Conn, err error)) {
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
	if !c.isLate(rank) || c.late.dialing[rank] != nil || c.late.coming[rank] != nil || c.stop.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(c.stop, c.cfg.Timeout, errTimeUp)
	c.late.dialing[rank] = cancel
	c.dials.Go(func() {
		defer cancel()
		conns, failed := c.reach(ctx, rank)
		c.mu.Lock()
		crossed := c.late.coming[rank] != nil
		c.mu.Unlock()
		switch {
		case failed == nil:
			c.late.opened(rank, conns, nil)
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

// admitLate takes a connection of a rank of Config.Later that has proved itself. Its dialing side counts on it from the
// welcome on, and no longer tries then.
func (m *connector) admitLate(c *Conn) {
	m.mu.Lock()
	streams := m.late.coming[c.peer]
	stands := !m.crossing(c.peer) && (streams == nil || len(streams) > 0)
	if stands && streams == nil {
		streams = make([]*Conn, m.cfg.Streams)
		m.late.coming[c.peer] = streams
		if stop := m.late.dialing[c.peer]; stop != nil {
			stop()
		}
	}
	m.mu.Unlock()
	if !stands || c.Welcome() != nil {
		c.raw.Close()
		return
	}
	m.mu.Lock()
	old, whole := streams[c.Channel()], true
	streams[c.Channel()] = c
	for _, s := range streams {
		whole = whole && s != nil
	}
	m.mu.Unlock()
	switch {
	case old != nil && whole:
		old.raw.Close() // the peer lost that one and tries again
	case whole:
		select {
		case <-m.late.serving:
			m.mu.Lock()
			m.late.coming[c.peer] = []*Conn{} // they are the Mesh's no longer
			m.mu.Unlock()
			m.late.opened(c.peer, streams, nil)
		case <-m.stop.Done():
		}
	}
}

// closeAll closes connections.
func closeAll(conns map[int][]*Conn) {
	for _, list := range conns {
		for _, c := range list {
			if c != nil {
				_ = c.raw.Close()
			}
		}
	}
}
