package comm

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// SetAllToAllV sets a to the AllToAllV of package collective, of elements of t, and checks it. Every chunk has the
// length of its part, which its receiver compares; an empty part is a chunk, too.
func (a *Args) SetAllToAllV(c *Comm, t kernel.DType, send []byte, sendCounts []int, recv []byte,
	recvCounts []int) *Args {
	a.ID.Kind, a.ID.Varied = call.AllToAll, true
	a.checkCounts(c, "sendCounts", sendCounts)
	a.checkCounts(c, "recvCounts", recvCounts)
	if a.Err != nil {
		return a
	}
	out, in, size := sum(sendCounts), sum(recvCounts), t.Size()
	switch {
	case len(send) != out*size || len(recv) != in*size:
		a.Refuse(c, "send has %d elements and recv %d, sendCounts have %d and recvCounts %d", len(send)/size,
			len(recv)/size, out, in)
	case sendCounts[c.Rank] != recvCounts[c.Rank]:
		a.Refuse(c, "this rank sends %d elements to itself and receives %d", sendCounts[c.Rank], recvCounts[c.Rank])
	case kernel.OverlapOf(send, recv) != kernel.Apart:
		a.Refuse(c, "send and recv overlap")
	}
	a.setID(plan.AllToAll, -1, 0, t)
	a.In, a.Out, a.counts, a.receives = send, recv, sendCounts, recvCounts
	if err := c.Plans.Planner.Site.Runs(plan.AllToAll); a.Err == nil && err != nil {
		a.Refuse(c, "%v", err)
	}
	return a
}
