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

// Close sends the other ranks the notice that this rank has left, after everything that it sent, and releases
// connections and memory.
func (e *Endpoint) Close() error {
	e.once.Do(func() {
		e.Aborted() // passes the latest fault on
		e.closed.Store(true)
		for _, c := range e.all() {
			c.lanes.cancelReceives()
		}
		e.bell.Ring()
		e.pump.stop.Store(true)
		e.pump.kick()
		<-e.pump.ended
		e.sendClosed()
		e.closeErr = e.release()
	})
	return e.closeErr
}

// sendClosed sends waiting frames, the latest calls and the notice that this rank has closed. Frames for a connection
// that is still to come are sent first, and after that no new connection is accepted: every existing connection
// receives all calls, and then the end.
func (e *Endpoint) sendClosed() {
	flushed := func(c *conn) bool { c.flush(); return !c.pending.Load() }
	e.pump.sendNews()
	e.until(flushed) // first, as control frames overtake data frames
	if e.mesh != nil {
		_ = e.mesh.Close()
		e.pump.resend()
		e.pump.sendNews()
		e.until(flushed)
	}
	for _, c := range e.all() {
		c.control(kindClosed, nil)
	}
	e.until(flushed)
	e.until(func(c *conn) bool {
		if c.connecting.Load() {
			return true
		}
		n, err := osys.Unsent(c.fd)
		return n == 0 || err != nil
	})
	for _, c := range e.all() {
		if !c.connecting.Load() && c.fd >= 0 && !c.dead.Load() {
			_ = osys.EndSending(c.fd)
		}
	}
}

// until waits until ready holds for every connection whose peer still listens and has not ended according to the World,
// and drops incoming data.
func (e *Endpoint) until(ready func(c *conn) bool) {
	acked := make(map[*conn]int) // bytes that the peers had not acknowledged
	for deadline := time.Now().Add(stuckAfter); time.Now().Before(deadline); {
		all := true
		for _, c := range e.all() {
			c.receive()
			if c.dead.Load() || ready(c) || e.ended(c.rank) {
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
		osys.Poll(e.bell.poller, -1, time.Millisecond)
	}
}

// release closes all descriptors and unmaps the host's memory.
func (e *Endpoint) release() error {
	var errs []error
	for _, c := range e.all() {
		errs = append(errs, c.close())
	}
	errs = append(errs, e.local.Close(), e.pump.event.Close())
	e.bell.close()
	return errors.Join(errs...)
}
