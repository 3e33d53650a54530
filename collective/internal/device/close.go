package device

import (
	"time"

	"github.com/treerun/treerun/internal/backoff"
)

// closeWithin is the time that Close waits for the calls under way, and for other ranks to read this rank's payloads.
const closeWithin = 4 * time.Second

// Close ends the Group and frees its resources. It waits, some seconds at most, until its calls are done and the other
// ranks have read its payloads, and otherwise aborts. A second Close does nothing. Enqueue must not run meanwhile.
func (g *Group) Close() error {
	var err error
	g.closing.Do(func() {
		if !g.settled(closeWithin) {
			g.Abort(errClosed)
		}
		g.ending.Lock()
		g.failure.CompareAndSwap(nil, &errClosed)
		g.ending.Unlock()
		close(g.done)
		if g.proxy != nil {
			g.proxy.wakeUp()
		}
		g.workers.Wait()
		err = g.free()
	})
	return err
}

// settled waits until nothing is under way, or the Group has failed, and reports whether that is so.
func (g *Group) settled(within time.Duration) bool {
	end, done := time.Now().Add(within), false
	backoff.Until(pollPause, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		done = g.executor.idle() && g.links.allRead() || g.Err() != nil
		return done || time.Now().After(end)
	})
	return done
}
