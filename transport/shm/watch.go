package shm

import (
	"net"
	"time"

	"github.com/treerun/treerun/transport"
)

// watch keeps the connection to a peer and reports the peer's death: the
// kernel closes the socket of a process however it ends. Nothing is ever sent
// on the connection. The goroutine lives in Go's poller and ends with Close.
func (e *endpoint) watch(c *net.UnixConn, peer int, grace time.Duration) {
	e.conns = append(e.conns, c)
	e.watchers.Go(func() {
		n, _ := c.Read(make([]byte, 1))
		// A peer that closes in good order says so before its socket closes.
		if e.Closed() || e.Status(peer).Closed {
			return
		}
		if n == 0 && !e.pause(grace) {
			return
		}
		if _, known := e.Aborted(); known || e.Status(peer).Closed {
			return
		}
		f := transport.Faultf(transport.FaultLost, peer, "rank %d's process ended (its connection closed)", peer)
		if n > 0 {
			f = transport.Faultf(transport.FaultLink, peer, "rank %d sent data on the connection that only tells of its life",
				peer)
		}
		e.Abort(f)
	})
}

// pause waits for d and returns true, or false when Close was called meanwhile.
func (e *endpoint) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-e.stop:
		return false
	}
}
