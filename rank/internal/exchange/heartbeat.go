package exchange

import (
	"fmt"
	"time"

	"github.com/treerun/treerun/internal/netconn"
)

// The mesh finds ranks of other hosts that are gone without the end of their
// connections: a host without power, a cut cable, a host whose processes are
// stopped. On every connection between hosts, each side says that it lives 20
// times within the peer timeout, and a rank that was silent for 0.9 of it
// counts as lost. A rank that computes goes on saying so, from another thread.
// Within a host the kernel ends the connections of what is gone, and a rank
// that is stopped there may be in a debugger.
const (
	heartbeats  = 20 // in a peer timeout
	missedLimit = 17 // heartbeats that may be missing in a row
)

// Heartbeat has the mesh send heartbeats, and look for silence, on connections to ranks of other hosts,
// which elsewhere tells, until it is closed.
func (m *Mesh) Heartbeat(peerTimeout time.Duration, elsewhere func(rank int) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.interval, m.elsewhere = peerTimeout/heartbeats, elsewhere
	for _, l := range m.conns(true) {
		m.watch(l)
	}
}

// watch begins to look for silence on a connection, if that is wanted. The caller holds mu.
func (m *Mesh) watch(l *peerConn) {
	if m.elsewhere == nil || !m.elsewhere(l.peer) {
		return
	}
	heartbeat, interval := notice(heartbeatFrame, m.cfg.Rank, 0, nil), m.interval
	m.wg.Go(func() {
		silent := l.Watch(l.ended, interval, missedLimit, func() {
			if !m.HasLeft(l.peer) {
				l.sendHeartbeat(heartbeat)
			}
		})
		if silent && !m.HasLeft(l.peer) {
			m.Lost(l.peer, fmt.Sprintf("gave no sign of life%s for %v, says rank %d%s: it or its host is stopped or down, "+
				"or the network between is cut%s", m.cfg.On(l.peer), (missedLimit+1)*interval, m.cfg.Rank, m.cfg.On(m.cfg.Rank),
				netconn.Jumbo(l.conn)))
		}
	})
}

// Hold keeps the mesh from saying anything, as if its rank were stopped, until release is
// called. It is for tests.
func (m *Mesh) Hold() (release func()) {
	m.mu.Lock()
	conns := m.conns(true)
	m.mu.Unlock()
	for _, l := range conns {
		l.mu.Lock()
	}
	return func() {
		for _, l := range conns {
			l.mu.Unlock()
		}
	}
}
