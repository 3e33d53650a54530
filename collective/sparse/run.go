package sparse

import (
	"context"
	"slices"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/drive"
	"github.com/treerun/treerun/collective/sparse/internal/merge"
	"github.com/treerun/treerun/collective/sparse/internal/omni"
	"github.com/treerun/treerun/transport"
)

// shape returns what the Aggregators form runs with. Packets have as many columns
// as fit 16 KiB, or a slot, but no more than give every stream of every aggregator
// something to do.
func (r *reduction) shape() omni.Shape {
	aggs := len(r.aggs)
	s := omni.Shape{
		Grid: r.grid, DType: r.call.DType, Op: r.call.Op,
		Workers: r.c.Size - len(r.servers), Aggregators: aggs, Streams: r.cfg.streams * aggs, Columns: r.cfg.columns,
		Compact: true, Lists: r.severalHosts(), // in shared memory bytes are cheaper than lists
	}
	if s.Columns == 0 {
		s.Columns = max(1, min(defaultMessage/r.grid.BlockBytes(), r.grid.Blocks()/s.Streams, 1024))
	}
	most := (r.ep.MaxPayload() - omni.HeaderBytes) / (r.grid.BlockBytes() + 4)
	s.Columns = max(1, min(s.Columns, most))
	return s
}

// aggregate runs the call in the Aggregators form.
func (r *reduction) aggregate(ctx context.Context) error {
	s := r.shape()
	in := omni.Input{Blocks: r.set, Send: r.in, Recv: r.out, Fill: r.fill, Union: r.union}
	if err := r.omni.Begin(r.header(-1), r.state.tensor, s, in); err != nil {
		return r.broken(r.name, err)
	}
	if err := r.drive(ctx, r.links, r.omni); err != nil {
		return err
	}
	r.stats.Servers = len(r.servers)
	r.stats.WorkerBlocks, r.stats.WorkerBytes = r.omni.Worker()
	union := r.omni.Total()
	r.moved(&r.omni.Traffic, union)
	return nil
}

// drive runs an exchange over links.
func (r *reduction) drive(ctx context.Context, k *drive.Links, x drive.Exchange) error {
	if fault, failed := k.Run(ctx, x, &r.c.Waiter, r.name); failed {
		return r.c.Fault(fault, r.name)
	}
	return nil
}

// header is in front of all messages of the call.
func (r *reduction) header(root int32) transport.Header {
	return transport.Header{Seq: uint64(r.state.tensor), Count: r.call.Count, Op: uint8(r.call.Op),
		DType: uint8(r.call.DType), Root: root}
}

// moved notes what a call has sent and received, and how many blocks any rank had.
func (r *reduction) moved(t *drive.Traffic, union int) {
	r.stats.Union, r.stats.UnionDensity = union, part(union, r.grid.Blocks())
	r.stats.SentBytes, r.stats.ReceivedBytes = t.SentBytes, t.ReceivedBytes
	r.stats.SentBlocks, r.stats.ReceivedBlocks = t.SentBlocks, t.ReceivedBlocks
	r.stats.SentMessages, r.stats.ReceivedMessages = t.SentMessages, t.ReceivedMessages
}

// mergeTrees runs the call in the Trees form.
func (r *reduction) mergeTrees(ctx context.Context) error {
	if err := r.dealOut(); err != nil {
		return r.broken(r.name, err)
	}
	var finder merge.Finder
	if r.search != nil {
		finder = r.search
	}
	err := r.merge.Begin(r.header(-1), func(t int) merge.Job {
		return merge.Job{
			Tensor: r.state.tensor, Grid: r.grid, Combiner: r.combine, Blocks: r.parts[t],
			Send: r.in, Recv: r.out, Fill: r.fill, Union: r.union, Deal: r.deal, Tree: t, Finder: finder,
		}
	})
	if err != nil {
		return r.broken(r.name, err)
	}
	if err := r.drive(ctx, r.links, r.merge); err != nil {
		return err
	}
	union := r.merge.Total()
	r.moved(&r.merge.Traffic, union)
	return nil
}

// stripeBytes is how much of a tensor goes to one tree before the next one's turn.
const stripeBytes = 4 << 10

// dealOut gives every tree its part of the blocks.
func (r *reduction) dealOut() (err error) {
	if r.combine == nil || r.combine.Op() != r.call.Op || r.combine.DType() != r.call.DType {
		r.combine = block.NewCombiner(r.call.Op, r.call.DType)
	}
	grain := max(1, stripeBytes/r.grid.BlockBytes())
	if r.deal, err = block.NewDeal(r.shares, grain); err != nil {
		return err
	}
	words := block.Words(r.grid.Blocks())
	r.parts = slices.Grow(r.parts[:0], len(r.merged))[:len(r.merged)]
	for t := range r.parts {
		r.parts[t] = block.Sized(r.parts[t], words)
		clear(r.parts[t])
	}
	if r.search == nil {
		r.deal.Split(r.set, 0, r.grid.Blocks(), r.parts)
	}
	return nil
}
