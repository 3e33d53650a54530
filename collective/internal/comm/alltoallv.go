package comm

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// SetAllToAllV sets a to the AllToAllV of package collective, of elements of t, and checks it; for unit see Vary. Every
// chunk has the length of its part, which its receiver compares; an empty part is a chunk, too.
func (a *Args) SetAllToAllV(c *Comm, t kernel.DType, send []byte, sendCounts []int, recv []byte,
	recvCounts []int, unit int) *Args {
	a.ID.Kind, a.ID.Varied, a.unit = call.AllToAll, true, unit
	sendCounts = a.checkCounts(c, "sendCounts", sendCounts)
	recvCounts = a.checkCounts(c, "recvCounts", recvCounts)
	if a.Err != nil {
		return a
	}
	out, in, size := sum(sendCounts), sum(recvCounts), t.Size()
	switch {
	case len(send) != out*size || len(recv) != in*size:
		a.Refuse(c, "send has %d elements and recv %d, sendCounts have %d and recvCounts %d",
			a.elements(len(send)/size), a.elements(len(recv)/size), a.elements(out), a.elements(in))
	case sendCounts[c.Rank] != recvCounts[c.Rank]:
		a.Refuse(c, "this rank sends %d elements to itself and receives %d", a.elements(sendCounts[c.Rank]),
			a.elements(recvCounts[c.Rank]))
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
