package comm

import (
	"time"

	"github.com/treerun/treerun/internal/comm/setup"
	"github.com/treerun/treerun/transport"
)

// Calls look for faults themselves. For ranks that are in none, and for links that no call is on, the
// communicator looks every watchEvery, and compares the ranks' calls every CheckEvery.
const (
	watchEvery = 50 * time.Millisecond
	CheckEvery = 4 * watchEvery
)

// watchOver is the one goroutine of the communicator that hears of failures: of ranks that the World
// has lost, and of faults that other ranks tell of. It makes them the fault of all its links.
func (c *Comm) watchOver() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	lost := c.World.Failed()
	left := make([]bool, c.Size)
	for n := time.Duration(1); ; n++ {
		select {
		case <-c.closed:
			return
		case <-lost:
			lost = nil
			c.abort(setup.LostRank(c.World))
		case <-tick.C:
			if f, failed := c.Endpoint.Aborted(); failed && c.whole.Err() == nil {
				c.abort(f)
			}
			c.passFaults()
			if c.Size > 1 && n%(CheckEvery/watchEvery) == 0 {
				c.Engine.Check()
				c.missed(left)
			}
		}
	}
}

// missed makes it a fault that a rank has closed its World and not the communicator: it calls
// nothing any more. Word of the two may come by different ways, so it must be so twice in a row:
// left says by rank whether it was before.
func (c *Comm) missed(left []bool) {
	w, tells := c.World.(setup.Leaving)
	for r := 0; tells && r < c.Size; r++ {
		st := c.Endpoint.Status(r)
		gone := r != c.Rank && !st.Closed && !st.Unknown && w.Left(r)
		if gone && left[r] {
			c.abort(transport.Faultf(transport.FaultClosed, r, "rank %d has closed its world and not the communicator", r))
		}
		left[r] = gone
	}
}

// passFaults has the links that OpenLinks has opened tell other hosts of their faults.
func (c *Comm) passFaults() {
	c.sidesMu.Lock()
	defer c.sidesMu.Unlock()
	for _, ep := range c.Sides {
		ep.Aborted()
	}
}

// abort makes f the fault of all links of c, unless they have one, and ends what waits for links
// to open: a rank that has learnt of a fault does not come to open any.
func (c *Comm) abort(f transport.Fault) {
	c.Endpoint.Abort(f)
	c.broken()
	c.sidesMu.Lock()
	defer c.sidesMu.Unlock() // none of them is closed meanwhile
	for _, ep := range c.Sides {
		ep.Abort(f)
	}
}
