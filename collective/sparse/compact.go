package sparse

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// compact runs the call in the form Compact: every device packs the blocks of the union one behind the other, the dense
// plan reduces these, and they are copied back to their places.
func (r *deviceReduction) compact(ctx context.Context) error {
	if err := r.unite(ctx); err != nil {
		return err
	}
	blocks, bytes, bitmap := r.union.Len(), r.grid.BytesOf(r.union), 8*len(r.state.set)
	r.moved(block.Counts{Union: blocks, SentBlocks: blocks, ReceivedBlocks: blocks, SentBytes: bytes + bitmap,
		ReceivedBytes: bytes + bitmap*(r.state.c.Size-1)})
	count(r.state.stage.set(before, len(r.union)), r.union)
	to, err := r.state.stage.compact(r.stream, r.call.DType, r.send, bytes, r.grid)
	if err != nil {
		return r.state.inside.FaultDevice(r.name, err)
	}
	if bytes > 0 {
		if err := r.state.inside.DenseDevice(ctx, r.stream, r.call.DType, r.call.Op, to.Packed, to.Packed,
			bytes/r.grid.Width); err != nil {
			return err
		}
	}
	to.Whole = r.recv
	return r.state.inside.FaultDevice(r.name, r.state.stage.expand(r.stream, r.call.DType, to))
}

// unite gathers the ranks' sets of blocks, and stores their union.
func (r *deviceReduction) unite(ctx context.Context) error {
	words := len(r.state.set)
	all := make(block.Set, words*r.state.c.Size)
	if err := r.state.inside.Gather(ctx, r.name, kernel.BytesOf(r.state.set), kernel.BytesOf(all)); err != nil {
		return err
	}
	for q := range r.state.c.Size {
		own := all[q*words : (q+1)*words]
		if b := own.Next(r.grid.Blocks()); b >= 0 {
			return r.state.broken(r.name, fmt.Errorf("rank %d has block %d of %d", q, b, r.grid.Blocks()))
		}
		r.union.Union(own)
	}
	return nil
}

// count writes, for each half of a word of a set, the number of blocks in the words and halves before it.
func count(to, set block.Set) {
	n := 0
	for i, w := range set {
		to[i] = uint64(n) | uint64(n+bits.OnesCount32(uint32(w)))<<32
		n += bits.OnesCount64(w)
	}
}
