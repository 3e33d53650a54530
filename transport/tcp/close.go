package tcp

import (
	"errors"
	"time"

	"github.com/treerun/treerun/transport/internal/osys"
)

// stuckAfter bounds how long Close waits while nothing moves: first until all sent frames are with the kernel, then
// until the peers' kernels have them. If data arrives for a socket that was closed earlier, the kernel drops the bytes
// that are still on their way from it. A slow network may take as long as it needs: a root is done with a message as
// soon as its slots hold the end of it.
const stuckAfter = 2 * time.Second

// Close sends the other ranks the notice that this rank has left, after everything that it sent, and releases memory,
// and with the last endpoint of the network the connections. If others are left, they send what still waits.
func (e *Endpoint) Close() error {
	e.once.Do(func() {
		e.Aborted() // passes the latest fault on
		e.closed.Store(true)
		for _, p := range e.all() {
			p.cancelReceives()
		}
		e.bell.Ring()
		if n := e.net; !n.leave(e) {
			e.notifyClosed()
			e.closeErr = e.local.Close()
		} else {
			n.pump.stop.Store(true)
			n.pump.kick()
			<-n.pump.ended
			n.sendClosed(e)
			e.closeErr = errors.Join(n.closeConns(), e.local.Close(), n.release())
		}
	})
	return e.closeErr
}

// notifyClosed sends the latest calls and faults, and the notice that this rank has closed.
func (e *Endpoint) notifyClosed() {
	e.news(time.Now(), true)
	e.reporting.Lock()
	e.left = true
	e.reporting.Unlock()
	for _, p := range e.all() {
		p.conn.leave(e)
	}
}

// sendClosed sends waiting frames, and what the last endpoint has to send. Frames for a connection that is yet to come
// are sent first, and after that no new connection is accepted: every existing connection receives all calls, and then
// the end.
func (n *network) sendClosed(e *Endpoint) {
	flushed := func(c *conn) bool { c.flush(nil); return !c.pending.Load() }
	e.news(time.Now(), true)
	n.until(flushed) // first, as control frames overtake data frames
	if n.mesh != nil {
		_ = n.mesh.Close()
		for _, c := range n.all() {
			if c.connecting.Load() { // for ever
				_ = c.close()
			}
		}
		e.resend()
		e.news(time.Now(), true)
		n.until(flushed)
	}
	e.notifyClosed()
	n.until(flushed)
	n.until(func(c *conn) bool {
		if c.connecting.Load() {
			return true
		}
		n, err := osys.Unsent(c.fd)
		return n == 0 || err != nil
	})
	for _, c := range n.all() {
		if !c.connecting.Load() && c.fd >= 0 && !c.dead.Load() {
			_ = osys.EndSending(c.fd)
		}
	}
}

// until waits until ready holds for every connection whose peer still listens and has not ended according to the World,
// and drops incoming data.
func (n *network) until(ready func(c *conn) bool) {
	acked := make(map[*conn]int) // bytes that the peers had not acknowledged
	for deadline := time.Now().Add(stuckAfter); time.Now().Before(deadline); {
		all := true
		for _, c := range n.all() {
			c.receive(nil)
			c.answerStale()
			if c.dead.Load() || ready(c) || n.cfg.gone(c.rank) {
				continue
			}
			all = false
			if c.connecting.Load() { // it comes soon, or fails
				deadline = time.Now().Add(stuckAfter)
				continue
			}
			c.awaitRoom()
			// A full socket makes progress when this number changes, in either direction.
			if n, err := osys.Unsent(c.fd); err == nil && n != acked[c] {
				acked[c] = n
				deadline = time.Now().Add(stuckAfter)
			}
		}
		if all {
			return
		}
		osys.Poll(n.poller, -1, time.Millisecond)
	}
}

// closeConns closes all connections.
func (n *network) closeConns() error {
	var errs []error
	for _, c := range n.all() {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// release closes the other descriptors. The doorbells are closed.
func (n *network) release() error {
	err := n.pump.event.Close()
	n.closePoller()
	return err
}
