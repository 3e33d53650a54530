package comm

import (
	"context"
	"encoding/binary"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// AllToAllV is that of package collective, of elements of t: two AllToAlls of the counts, and then a message from each
// rank to each. In the header stands t, so that ranks whose elements differ are found out before anything moves.
func (c *Comm) AllToAllV(ctx context.Context, t kernel.DType, send []byte, sendCounts []int, recv []byte,
	recvCounts []int) error {
	a := Args{Kind: plan.AllToAll, flags: engine.Varied, of: t}
	out, in := a.layOut(c, "sendCounts", sendCounts), a.layOut(c, "recvCounts", recvCounts)
	mine, theirs := make([]byte, 0, 8*c.Size), make([]byte, 8*c.Size)
	size := t.Size()
	switch {
	case a.Err != nil:
	case len(send) != out[c.Size]*size || len(recv) != in[c.Size]*size:
		a.Refuse(c, "send has %d elements and recv %d, sendCounts say %d and recvCounts %d", len(send)/size,
			len(recv)/size, out[c.Size], in[c.Size])
	case kernel.OverlapOf(send, recv) != kernel.Apart:
		a.Refuse(c, "send and recv overlap")
	case c.Plans.Messages < 0:
		a.Refuse(c, "it is for %s", c.Plans.NoMessages())
	default:
		for _, n := range sendCounts {
			mine = binary.LittleEndian.AppendUint64(mine, uint64(n))
		}
		a.In, a.Out = mine, theirs
		a.SetHost(c, plan.AllToAll, -1, kernel.Int64, c.Size, c.Size)
	}
	if err := c.Begin(&a); err != nil {
		return err
	}
	defer c.End()
	if err := c.Go(ctx, &a, &c.Waiter); err != nil {
		return err
	}
	add(&c.tally.rows[plan.AllToAll].bytes, len(send))
	members := make([]int, c.Size)
	for r := range members {
		members[r] = r
		if n := binary.LittleEndian.Uint64(theirs[8*r:]); n != uint64(recvCounts[r]) {
			return c.fail(transport.Faultf(transport.FaultMismatch, r, "rank %d sends %d elements to rank %d, which "+
				"receives %d from it", r, n, c.Rank, recvCounts[r]), a.header(c.Seq))
		}
	}
	// Once more: nobody gets through that before everybody has found that the counts agree.
	a.In, a.Out = mine, theirs
	if err := c.Go(ctx, &a, &c.Waiter); err != nil {
		return err
	}
	return c.Messages.exchange(ctx, "AllToAllV", t, members,
		func(r int) []byte { return send[out[r]*size : out[r+1]*size] },
		func(r int) []byte { return recv[in[r]*size : in[r+1]*size] })
}
