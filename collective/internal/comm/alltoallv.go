package comm

import (
	"encoding/binary"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// AllToAllV is that of package collective, of elements of t: an AllToAll of the counts, and then messages from each
// rank to each. Its ID has t, so that ranks whose elements differ are detected before anything moves.
func AllToAllV(c *Comm, t kernel.DType, send []byte, sendCounts []int, recv []byte, recvCounts []int) *Args {
	a := NewArgs(call.ID{Kind: call.AllToAll, Varied: true, DType: t})
	a.own = len(send)
	out, in := a.layOut(c, "sendCounts", sendCounts), a.layOut(c, "recvCounts", recvCounts)
	mine, theirs := make([]byte, 0, 8*c.Size), make([]byte, 8*c.Size)
	size := t.Size()
	switch {
	case a.Err != nil:
	case len(send) != out[c.Size]*size || len(recv) != in[c.Size]*size:
		a.Refuse(c, "send has %d elements and recv %d, sendCounts have %d and recvCounts %d", len(send)/size,
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
	a.follow = func() []engine.Round {
		parts := make([]p2p.Pass, c.Size)
		for r := range parts {
			parts[r] = p2p.Pass{Peer: r, Out: send[out[r]*size : out[r+1]*size], In: recv[in[r]*size : in[r+1]*size]}
		}
		list := []engine.Round{{Then: func() error { return sentAs(theirs, in, c.Rank) }}}
		for step := 1; step < c.Size; step *= 2 { // no rank continues before all have found that the counts agree
			list = append(list, engine.Round{Passes: []p2p.Pass{{Peer: (c.Rank + step) % c.Size, Out: mine[:1]},
				{Peer: (c.Rank - step + c.Size) % c.Size, In: theirs[:1]}}})
		}
		return append(list, engine.Round{Passes: parts})
	}
	return a
}

// sentAs compares the numbers of elements that the ranks send to this one with those that it receives, which lie at
// begins.
func sentAs(counts []byte, begins []int, rank int) error {
	for r := range len(begins) - 1 {
		if n, want := binary.LittleEndian.Uint64(counts[8*r:]), begins[r+1]-begins[r]; n != uint64(want) {
			return transport.Faultf(transport.FaultMismatch, r, "rank %d sends %d elements to rank %d, which receives %d "+
				"from it", r, n, rank, want)
		}
	}
	return nil
}
