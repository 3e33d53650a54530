package comm

import (
	"cmp"
	"errors"
	"time"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/transport"
)

// Calls look for faults themselves. For ranks that are in none, and for links that no call is on, the
// communicator looks every watchEvery, and compares the ranks' calls every CheckEvery.
const (
	watchEvery = 50 * time.Millisecond
	CheckEvery = 4 * watchEvery
)

// watchOver is the one goroutine of the communicator that learns of failures: of ranks that the World has lost, and of
// faults that other ranks report. It makes them the fault of all its links.
func (c *Comm) watchOver() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	lost := c.Setup.World.Failed()
	gone := make([]int, c.Size)
	for n := time.Duration(1); ; n++ {
		select {
		case <-c.closed:
			return
		case <-lost:
			lost = nil
			c.abort(setup.LostRank(c.Setup.World))
		case <-tick.C:
			if f, failed := c.Endpoint.Aborted(); failed && c.ctx.Err() == nil {
				c.abort(f)
			}
			if c.Size > 1 && c.ctx.Err() == nil && n%(CheckEvery/watchEvery) == 0 {
				c.Engine.Check()
				c.move()
				c.missed(gone)
			}
		}
	}
}

// The numbers of checks in a row that must find that a rank has ended which the World has not lost.
const (
	leftChecks  = 2                            // it has closed the World: word of the communicator's Close may come later
	endedChecks = int(endedAfter / CheckEvery) // its links have ended: the World may report why
	endedAfter  = time.Second
)

// missed makes it a fault that a rank calls nothing any more and the World has not lost it: it has closed that and not
// the communicator, or links with it have ended. gone counts, by rank, the checks in a row that have found that.
func (c *Comm) missed(gone []int) {
	for r := range c.Size {
		closed, ended := c.linksWith(r)
		left := r != c.Rank && !closed && setup.Left(c.Setup.World, r)
		if gone[r]++; !left && ended == nil {
			gone[r] = 0
		}
		switch {
		case left && gone[r] >= leftChecks:
			c.abort(transport.Faultf(transport.FaultClosed, r, "rank %d has closed its world and not the communicator", r))
		case errors.Is(ended, transport.ErrCorrupt):
			c.abort(transport.Faultf(transport.FaultLink, r, "rank %d: %v", r, ended))
		case gone[r] >= endedChecks:
			c.abort(transport.Faultf(transport.FaultLink, r, "no link with rank %d is left: %v (hint: nothing else says "+
				"that it has ended; is the network between the two cut?)", r, ended))
		}
	}
}

// linksWith reports whether rank r has closed the communicator, as far as this rank can know, and why any links with it
// have ended, nil where none have.
func (c *Comm) linksWith(r int) (closed bool, ended error) {
	c.sidesMu.Lock()
	defer c.sidesMu.Unlock()
	st := c.Endpoint.Status(r)
	ended = st.Ended
	for _, ep := range c.Sides {
		ended = cmp.Or(ended, ep.Status(r).Ended)
	}
	return st.Closed || st.Unknown, ended
}

// abort makes f the fault of all links of c, unless they have one, and returns the one that counts. It ends waits for
// links to open: a rank that has learnt of a fault does not come to open any.
func (c *Comm) abort(f transport.Fault) transport.Fault {
	c.Endpoint.Abort(f)
	if first, failed := c.Endpoint.Aborted(); failed {
		f = first
	}
	c.cancel()
	c.sidesMu.Lock()
	defer c.sidesMu.Unlock() // none of them is closed meanwhile
	for _, ep := range c.Sides {
		ep.Abort(f)
	}
	return f
}
