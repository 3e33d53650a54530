package device

import "time"

// closeWithin is the time that Close waits for the calls under way, and for other ranks to read this rank's payloads.
const closeWithin = 4 * time.Second

// Close ends the Group and frees its resources. It waits, some seconds at most, until its calls are done and the other
// ranks have read its payloads, and otherwise aborts. A second Close does nothing. Enqueue must not run meanwhile.
func (g *Group) Close() error {
	var err error
	g.closing.Do(func() {
		if !g.settled(closeWithin) {
			g.Abort(ErrClosed)
		}
		g.ending.Lock()
		g.failure.CompareAndSwap(nil, &ErrClosed)
		g.ending.Unlock()
		close(g.done)
		if g.relay != nil {
			g.relay.rouse()
		}
		g.workers.Wait()
		err = g.free()
	})
	return err
}

// settled waits until nothing is under way, and reports whether that is so.
func (g *Group) settled(within time.Duration) bool {
	end := time.Now().Add(within)
	err := g.wait(func() (bool, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if time.Now().After(end) {
			return true, nil
		}
		if !g.idle() {
			return false, nil
		}
		return g.allRead(), nil
	})
	return err != nil || time.Now().Before(end)
}

// allRead reports whether the other ranks have released all that this one sent.
func (g *Group) allRead() bool {
	for i := range g.links {
		if g.layout.links[i].Src == g.rank && !g.reached(i, true, g.links[i].count) {
			return false
		}
	}
	return true
}
