package mismatch

import (
	"time"

	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// Settle waits, before this rank closes, until the others have entered its
// latest call too, but not longer than within, and compares. It returns the
// fault of the Endpoint. The owner of the links calls it.
func (c *Calls) Settle(within time.Duration) (transport.Fault, bool) {
	mine := c.ep.Status(c.rank).Call.ID()
	c.ep.FlushStatus()
	start, compare := time.Now(), time.Duration(0)
	for idle := (backoff.Wait{Max: 5 * time.Millisecond}); ; idle.Pause() {
		if f, failed := c.ep.Aborted(); failed {
			return f, true
		}
		behind := c.behind(mine) // read first: a rank that enters in between is compared the next time
		waited := time.Since(start)
		if last := !behind || waited > within; last || waited >= compare { // it checks every link: seldom
			err := c.Compare(mine)
			if err == nil {
				err = c.unanswered(mine)
			}
			if err != nil {
				c.ep.Abort(transport.CallFault(err, c.rank, mine.String()))
				return c.ep.Aborted()
			}
			if last {
				return transport.Fault{}, false
			}
			compare = 2 * waited
		}
	}
}

// behind reports whether a rank of known status has still to enter call mine.
func (c *Calls) behind(mine call.ID) bool {
	for r := range c.size {
		if st := c.ep.Status(r); r != c.rank && !st.Closed && !st.Unknown && st.Call.Seq < mine.Seq {
			return true
		}
	}
	return false
}

// unanswered looks for a call after mine, which this rank, about to close, will not make: one that
// another rank has entered, or of which a chunk has come. The fault is its own.
func (c *Calls) unanswered(mine call.ID) error {
	for r := range c.size {
		if st := c.ep.Status(r); r != c.rank && st.Call.Seq > mine.Seq {
			return transport.ClosedFault(c.rank, r, st.Call.ID().String())
		}
	}
	for _, in := range c.Links {
		var h call.Header
		if _, ok, _ := in.Receiver.TryPeek(&h); ok && h.Seq > mine.Seq {
			return transport.ClosedFault(c.rank, in.Src, h.ID().String())
		}
	}
	return nil
}
