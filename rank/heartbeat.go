package rank

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

// heartbeat sends heartbeats, and looks for silence, until the world closes. elsewhere tells
// ranks of other hosts.
func (m *mesh) heartbeat(peerTimeout time.Duration, elsewhere func(rank int) bool) {
	interval := peerTimeout / heartbeats
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	heartbeat := notice(heartbeatFrame, m.authenticator.self, 0, nil)
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
			if !elsewhere(l.peer) || m.jobState.hasLeft(l.peer) {
				continue
			}
			if late > starvedIn*interval {
				l.excuse(late)
			}
			m.wg.Go(func() { l.sendHeartbeat(heartbeat) })
			if silence := l.silence(); silence > missedLimit*interval {
				m.silent(l.peer, silence)
			}
		}
	}
}

// silent notes that a rank has been silent for too long.
func (m *mesh) silent(peer int, silence time.Duration) {
	m.fail(peer, fmt.Sprintf("gave no sign of life%s for %v, says rank %d%s: it or its host is stopped or down, or the "+
		"network between is cut",
		m.on(peer), silence.Round(100*time.Millisecond), m.authenticator.self, m.on(m.authenticator.self)))
}

// silence returns for how long nothing came from a rank, by the connection that
// knows best; ok is false when there is no connection with it.
func (m *mesh) silence(rank int) (least time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.conns(true) {
		if l.peer == rank && (!ok || l.silence() < least) {
			least, ok = l.silence(), true
		}
	}
	return least, ok
}
