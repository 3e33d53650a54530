package comm

import (
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
func (l *Links) watchOver() {
	c := l.c
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
			l.Abort(setup.LostRank(c.Setup.World))
		case <-tick.C:
			if f, failed := c.Endpoint.Aborted(); failed && c.ctx.Err() == nil {
				l.Abort(f)
			}
			if c.Size > 1 && c.ctx.Err() == nil && n%(CheckEvery/watchEvery) == 0 {
				c.Engine.Calls.Check()
				c.move(nil)
				l.missed(gone)
			}
		}
	}
}

// endedChecks is the number of checks in a row that must find that a rank has ended which the World has not lost. Where
// its links have ended the World may report why. Where it has closed the World the communicator's notice may arrive
// later: the Close of this rank, which waits for less than that, then ends without a fault.
const (
	endedChecks = int(endedAfter / CheckEvery)
	endedAfter  = 1200 * time.Millisecond
)

// missed makes it a fault that a rank calls nothing any more and the World has not lost it: it has closed that and not
// the communicator, or links with it have ended. gone counts, by rank, the checks in a row that have found that.
func (l *Links) missed(gone []int) {
	c := l.c
	for r := range c.Size {
		closed, ended := l.status(r)
		left := r != c.Rank && !closed && setup.Left(c.Setup.World, r)
		if gone[r]++; !left && ended == nil {
			gone[r] = 0
		}
		switch {
		case left && gone[r] >= endedChecks:
			l.Abort(transport.Faultf(transport.FaultClosed, r, "rank %d has closed its world and not the communicator", r))
		case errors.Is(ended, transport.ErrCorrupt):
			l.Abort(transport.Faultf(transport.FaultLink, r, "rank %d: %v", r, ended))
		case gone[r] >= endedChecks:
			l.Abort(transport.Faultf(transport.FaultLink, r, "no link with rank %d is left: %v (hint: no other sign "+
				"shows that it has ended; is the network between the two cut?)", r, ended))
		}
	}
}
