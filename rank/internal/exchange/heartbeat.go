package exchange

import (
	"fmt"
	"time"
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
	missedLimit = 18 // heartbeats of silence, of which one is on the way
	starvedIn   = 3  // heartbeats late: this rank itself was stopped, or got no core
)

// Heartbeat sends heartbeats, and looks for silence, until the mesh is closed. elsewhere tells
// ranks of other hosts.
func (m *Mesh) Heartbeat(peerTimeout time.Duration, elsewhere func(rank int) bool) {
	m.wg.Go(func() { m.beat(peerTimeout/heartbeats, elsewhere) })
}

func (m *Mesh) beat(interval time.Duration, elsewhere func(rank int) bool) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	heartbeat := notice(heartbeatFrame, m.cfg.Rank, 0, nil)
	last := time.Now()
	for {
		select {
		case <-m.stop.Done():
			return
		case <-ticker.C:
		}
		late := time.Since(last)
		last = time.Now()
		m.mu.Lock()
		conns := m.conns(true)
		m.mu.Unlock()
		for _, l := range conns {
			if !elsewhere(l.peer) || m.HasLeft(l.peer) {
				continue
			}
			if late > starvedIn*interval {
				l.excuse(late)
			}
			m.wg.Go(func() { l.sendHeartbeat(heartbeat) })
			if silence := l.silence(); silence > missedLimit*interval {
				m.Lost(l.peer, fmt.Sprintf("gave no sign of life%s for %v, says rank %d%s: it or its host is stopped or down, "+
					"or the network between is cut", m.cfg.On(l.peer), silence.Round(100*time.Millisecond), m.cfg.Rank,
					m.cfg.On(m.cfg.Rank)))
			}
		}
	}
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
