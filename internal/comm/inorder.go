package comm

import (
	"context"
	"encoding/binary"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// InOrder is a call that combines what ranks give in the order of the ranks, by messages: for operations that may not
// be commutative, and for Scan.
type InOrder struct {
	c    *Comm
	name string
	in   []byte // what the peer has sent
	// combine makes into what into, of lower ranks, and from, of higher ones, give together.
	combine func(into, from []byte)
}

// BeginInOrder begins the call engine.CallsInOrder[which], in which every rank gives count elements of size bytes, and
// compares what all ranks say of it. send and recv are nil where this rank has none.
func (c *Comm) BeginInOrder(ctx context.Context, which int, send, recv []byte, count, size, root int,
	combine func(into, from []byte)) (*InOrder, error) {
	a := &Args{Kind: plan.AllGather, inOrder: uint8(engine.InOrder + which)}
	switch {
	case recv != nil && len(recv) != len(send):
		a.Refuse(c, "send has %d elements, recv %d", len(send)/size, len(recv)/size)
	case kernel.OverlapOf(send, recv) == kernel.Partial:
		a.Refuse(c, "send and recv overlap in part; use the same slice or two separate ones")
	case root < -1 || root >= c.Size:
		a.Refuse(c, "root %d of %d ranks", root, c.Size)
	case c.Size > 1 && c.Plans.Messages < 0:
		a.Refuse(c, "it is for %s", c.Plans.NoMessages())
	}
	var mine []byte
	for _, v := range []int{count, size, root} {
		mine = binary.LittleEndian.AppendUint64(mine, uint64(v))
	}
	all := make([]byte, len(mine)*c.Size)
	if err := c.Run(ctx, a.gathers(c, kernel.Int64, mine, all)); err != nil {
		return nil, err
	}
	for r := range c.Size {
		if theirs := all[r*len(mine):][:len(mine)]; string(theirs) != string(mine) {
			n, of := binary.LittleEndian.Uint64(theirs), binary.LittleEndian.Uint64(theirs[8:])
			return nil, c.fail(transport.Faultf(transport.FaultMismatch, r, "rank %d has %d elements of %d bytes, root %d, "+
				"rank %d has %d of %d, root %d", r, n, of, int64(binary.LittleEndian.Uint64(theirs[16:])), c.Rank, count, size,
				root), c.header(a))
		}
	}
	return &InOrder{c: c, name: a.name(), in: make([]byte, len(send)), combine: combine}, nil
}

// pass sends out to a rank, and receives what it sends in o.in if receives is set. Nothing is nothing to send.
func (o *InOrder) pass(ctx context.Context, peer int, out []byte, receives bool) error {
	var in []byte
	if receives {
		in = o.in
	}
	return o.c.Messages.exchange(ctx, o.name, kernel.Uint8, []int{peer},
		func(int) []byte { return out }, func(int) []byte { return in })
}

// Reduce combines acc of all ranks into that of rank 0, up a binomial tree of neighbours.
func (o *InOrder) Reduce(ctx context.Context, acc []byte) error {
	for step := 1; step < o.c.Size && len(acc) > 0; step *= 2 {
		if o.c.Rank&step != 0 {
			return o.pass(ctx, o.c.Rank-step, acc, false)
		}
		if peer := o.c.Rank + step; peer < o.c.Size {
			if err := o.pass(ctx, peer, nil, true); err != nil {
				return err
			}
			o.combine(acc, o.in)
		}
	}
	return nil
}

// Hand takes acc from rank 0 to root, in acc of that.
func (o *InOrder) Hand(ctx context.Context, acc []byte, root int) error {
	switch {
	case root == 0 || len(acc) == 0:
	case o.c.Rank == 0:
		return o.pass(ctx, root, acc, false)
	case o.c.Rank == root:
		err := o.pass(ctx, 0, nil, true)
		copy(acc, o.in)
		return err
	}
	return nil
}

// Scan combines what all ranks up to this one give into acc, which holds what this rank gives; exclusive leaves this
// one out: acc of rank 0 stays. Recursive doubling, as in MPICH.
func (o *InOrder) Scan(ctx context.Context, acc []byte, exclusive bool) error {
	block := append([]byte(nil), acc...) // of the ranks that agree with this one above the step's bit
	empty := exclusive
	for step := 1; step < o.c.Size && len(acc) > 0; step *= 2 {
		peer := o.c.Rank ^ step
		if peer >= o.c.Size {
			continue
		}
		if err := o.pass(ctx, peer, block, true); err != nil {
			return err
		}
		if peer > o.c.Rank {
			o.combine(block, o.in)
			continue
		}
		before := append([]byte(nil), o.in...)
		o.combine(o.in, block)
		block, o.in = o.in, block
		if !empty {
			o.combine(before, acc)
		}
		copy(acc, before)
		empty = false
	}
	return nil
}
