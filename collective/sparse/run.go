package sparse

import (
	"context"
	"slices"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/drive"
	"github.com/treerun/treerun/collective/sparse/internal/merge"
	calls "github.com/treerun/treerun/internal/call"
)

// drive runs an exchange over links.
func (r *reduction) drive(ctx context.Context, x drive.Exchange) error {
	if fault, failed := drive.Run(ctx, x, &r.state.inside.Waiter, r.name); failed {
		return r.state.c.Fault(fault, r.name)
	}
	return nil
}

// header returns the header of all messages of the call.
func (r *reduction) header(root int32) calls.Header {
	return calls.ID{Seq: uint64(r.state.tensor), Count: uint64(r.call.Count), Op: r.call.Op, DType: r.call.DType,
		Root: root}.Header()
}

// moved stores the blocks and bytes that a call has sent and received, and the size of the union.
func (r *reduction) moved(n block.Counts) {
	s := &r.stats
	s.Union, s.UnionDensity = n.Union, part(n.Union, r.grid.Blocks())
	s.SentBytes, s.ReceivedBytes = int64(n.SentBytes), int64(n.ReceivedBytes)
	s.SentBlocks, s.ReceivedBlocks = int64(n.SentBlocks), int64(n.ReceivedBlocks)
	s.SentMessages, s.ReceivedMessages = int64(n.SentChunks), int64(n.ReceivedChunks)
}

// merge merges the ranks' blocks along the trees of f.
func (r *reduction) merge(ctx context.Context, f *treeLinks) error {
	if err := r.state.open(ctx, f, r.name, r.grid.BlockBytes()); err != nil {
		return err
	}
	if err := r.dealOut(f); err != nil {
		return r.state.broken(r.name, err)
	}
	j := merge.Job{Tensor: r.state.tensor, Grid: r.grid, Op: r.call.Op, DType: r.call.DType, Send: r.in, Recv: r.out,
		Alone: r.state.c.Size-len(r.state.servers) == 1,
		Union: r.union, Thin: r.state.severalHosts()} // in shared memory bytes are cheaper
	if r.search != nil {
		j.Finder = r.search
	}
	stars := f == &r.state.stars
	if err := f.run.Begin(r.header(-1), j, r.state.parts, stars); err != nil {
		return r.state.broken(r.name, err)
	}
	if err := r.drive(ctx, f.run); err != nil {
		return err
	}
	all, own := f.run.Counts()
	r.moved(all)
	if stars {
		r.stats.Servers = len(r.state.servers)
		r.stats.WorkerBlocks, r.stats.WorkerBytes = int64(own.SentBlocks), int64(own.SentBytes)
	}
	return nil
}

// stripeBytes is the number of bytes of a tensor that go to one tree before the next one.
const stripeBytes = 4 << 10

// dealOut gives every tree its part of the blocks.
func (r *reduction) dealOut(f *treeLinks) (err error) {
	stripe := max(1, stripeBytes/r.grid.BlockBytes())
	if r.state.deal, err = block.NewDeal(f.shares, stripe); err != nil {
		return err
	}
	words := block.Words(r.grid.Blocks())
	r.state.parts = slices.Grow(r.state.parts[:0], len(f.trees))[:len(f.trees)]
	for t := range r.state.parts {
		r.state.parts[t] = block.Sized(r.state.parts[t], words)
		clear(r.state.parts[t])
	}
	if r.search == nil {
		r.state.deal.Split(r.state.set, 0, r.grid.Blocks(), r.state.parts)
	}
	return nil
}
