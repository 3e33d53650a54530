package comm

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// AllToAllV is that of package collective, of elements of t. Every chunk has the length of its part, which its receiver
// compares; an empty part is a chunk, too.
func AllToAllV(c *Comm, t kernel.DType, send []byte, sendCounts []int, recv []byte, recvCounts []int) *Args {
	a := NewArgs(call.ID{Kind: call.AllToAll, Varied: true, DType: t})
	out, in := a.layOut(c, "sendCounts", sendCounts), a.layOut(c, "recvCounts", recvCounts)
	size := t.Size()
	switch {
	case a.Err != nil:
		return a
	case len(send) != out[c.Size]*size || len(recv) != in[c.Size]*size:
		a.Refuse(c, "send has %d elements and recv %d, sendCounts have %d and recvCounts %d", len(send)/size,
			len(recv)/size, out[c.Size], in[c.Size])
	case sendCounts[c.Rank] != recvCounts[c.Rank]:
		a.Refuse(c, "this rank sends %d elements to itself and receives %d", sendCounts[c.Rank], recvCounts[c.Rank])
	case kernel.OverlapOf(send, recv) != kernel.Apart:
		a.Refuse(c, "send and recv overlap")
	}
	a.setID(plan.AllToAll, -1, 0, t)
	a.In, a.Out, a.Begins, a.OutAt = send, recv, out, in
	if err := c.Plans.Planner.Site.Runs(plan.AllToAll); a.Err == nil && err != nil {
		a.Refuse(c, "%v", err)
	}
	return a
}
