package exchange

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/netconn"
)

// The mesh detects ranks of other hosts that are gone although their connections have not ended: a host without power,
// a cut cable, a host whose processes are stopped. Where a launcher reports lost hosts, a rank that is stopped is not
// lost once all ranks have joined, and the kernel watches the network. Else, on every connection between hosts, each
// side sends 20 heartbeats within the peer timeout, and a rank that was silent for 0.9 of it counts as lost. A rank
// that computes keeps sending them, from another thread. Within a host the kernel ends the connections of processes
// that are gone, and a rank that is stopped there may be in a debugger.
const (
	heartbeats  = 20 // per peer timeout
	missedLimit = 17 // consecutive heartbeats that may be missing
)

// Heartbeat has the mesh send heartbeats, and watch for silence, on connections to ranks of other hosts, until it is
// closed. elsewhere reports whether a rank is on another host.
func (m *Mesh) Heartbeat(peerTimeout time.Duration, elsewhere func(rank int) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.interval, m.elsewhere = peerTimeout/heartbeats, elsewhere
	for _, l := range m.conns(true) {
		m.watch(l)
	}
}

// Complete notes that all ranks have joined.
func (m *Mesh) Complete() { m.complete.Store(true) }

// watch begins to watch for silence on a connection, if Heartbeat has been called. The caller holds mu.
func (m *Mesh) watch(l *peerConn) {
	if m.elsewhere == nil || !m.elsewhere(l.peer) {
		return
	}
	if m.cfg.Launched {
		if c, is := l.conn.(interface{ TCP() *net.TCPConn }); is {
			_ = netconn.SetPeerTimeout(c.TCP(), m.interval*heartbeats) // fails only where the connection has ended
		}
	}
	heartbeat, interval := notice(heartbeatFrame, m.cfg.Rank, 0, nil), m.interval
	m.wg.Go(func() {
		silent := l.Watch(l.ended, interval, missedLimit, func() {
			if !m.HasLeft(l.peer) {
				l.sendHeartbeat(heartbeat)
			}
		})
		if silent && !(m.cfg.Launched && m.complete.Load()) && !m.HasLeft(l.peer) {
			m.reportFailed(l.peer, strings.TrimSpace(fmt.Sprintf("%s has sent nothing to rank %d%s for %v: it or its host is "+
				"stopped or down, or the network between is cut%s", m.cfg.On(l.peer), m.cfg.Rank, m.cfg.On(m.cfg.Rank),
				(missedLimit+1)*interval, netconn.Jumbo(l.conn))))
		}
	})
}

// Hold keeps the mesh from sending anything, as if its rank were stopped, until release is called. It is for tests.
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
