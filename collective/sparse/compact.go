package sparse

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// compact runs the call in the form Compact: every device puts the blocks that any rank has one behind
// the other, the dense plan reduces these, and they go back to their places.
func (r *deviceReduction) compact(ctx context.Context) error {
	r.counted()
	err := r.unite(ctx)
	if err != nil {
		return err
	}
	g := r.stage
	blocks, all := r.union.Len(), r.grid.Blocks()
	elements := blocks * r.grid.Size
	if blocks > 0 && r.union.Has(all-1) {
		elements -= all*r.grid.Size - r.grid.Elements // the last one may be shorter
	}
	bytes := elements * r.grid.Width
	if g.packed, err = grown(g.device, g.packed, bytes+vector); err != nil {
		return r.c.FaultDevice(r.name, err)
	}
	count(g.set(before, len(r.union)), r.union)
	to := g.compaction(r.send, r.grid)
	if err := g.compact(r.stream, r.call.DType, to); err != nil {
		return r.c.FaultDevice(r.name, err)
	}
	if elements > 0 {
		if err := r.c.DenseDevice(ctx, r.stream, r.call.DType, r.call.Op, to.Packed, to.Packed, elements); err != nil {
			return err
		}
	}
	to.Whole = r.recv
	if err := g.expand(r.stream, r.call.DType, to); err != nil {
		return r.c.FaultDevice(r.name, err)
	}
	bitmap := 8 * len(r.set)
	r.moved(block.Counts{Union: blocks, SentBlocks: blocks, ReceivedBlocks: blocks, SentBytes: bytes + bitmap,
		ReceivedBytes: bytes + bitmap*(r.c.Size-1)})
	return nil
}

// unite has the ranks tell each other which blocks they have, and notes those that any has.
func (r *deviceReduction) unite(ctx context.Context) error {
	words := len(r.set)
	all := make(block.Set, words*r.c.Size)
	if err := r.c.Gather(ctx, r.name, kernel.BytesOf(r.set), kernel.BytesOf(all)); err != nil {
		return err
	}
	for q := range r.c.Size {
		own := all[q*words : (q+1)*words]
		if b := own.Next(r.grid.Blocks()); b >= 0 {
			return r.broken(r.name, fmt.Errorf("rank %d has block %d of %d", q, b, r.grid.Blocks()))
		}
		r.union.Union(own)
	}
	return nil
}

// count writes, for each half of a word of a set, how many blocks are in the words and halves before it.
func count(to, set block.Set) {
	n := 0
	for i, w := range set {
		to[i] = uint64(n) | uint64(n+bits.OnesCount32(uint32(w)))<<32
		n += bits.OnesCount64(w)
	}
}
