package comm

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// InOrder is a call that combines what ranks give in the order of the ranks, by messages: for operations that may not
// be commutative, and for Scan.
type InOrder struct {
	c    *Comm
	args *Args  // of its beginning
	in   []byte // what the peer has sent
	// combine makes into what into, of lower ranks, and from, of higher ones, give together.
	combine func(into, from []byte)
}

// BeginInOrder begins the call engine.CallsInOrder[which], in which this rank gives count elements of size bytes and
// has room for recvs, -1 where it gets none; root is -1 where there is none, and id tells operations and types apart.
// It compares what all ranks say of that, and claims the communicator until End.
func (c *Comm) BeginInOrder(ctx context.Context, which, count, recvs, size, root int, id uint64,
	combine func(into, from []byte)) (*InOrder, error) {
	a := &Args{Kind: plan.AllGather, as: uint8(engine.InOrder + which)}
	switch {
	case recvs >= 0 && recvs != count:
		a.Refuse(c, "send has %d elements, recv %d", count, recvs)
	case root >= c.Size || root < -1:
		a.Refuse(c, "root %d of %d ranks", root, c.Size)
	case c.Size > 1 && c.Plans.Messages < 0:
		a.Refuse(c, "it is for %s", c.Plans.NoMessages())
	}
	var mine []byte
	for _, v := range []uint64{uint64(count), uint64(size), uint64(root), id} {
		mine = binary.LittleEndian.AppendUint64(mine, v)
	}
	all := make([]byte, len(mine)*c.Size)
	if err := c.Begin(a.gathers(c, kernel.Int64, mine, all)); err != nil {
		return nil, err
	}
	o := &InOrder{c: c, args: a, in: make([]byte, count*size), combine: combine}
	err := c.Go(ctx, a, &c.Waiter)
	add(&c.tally.rows[rowOf(0, a.as)].bytes, count*size)
	for r := 1; r < c.Size && err == nil; r++ {
		if theirs := all[r*len(mine):][:len(mine)]; string(theirs) != string(all[:len(mine)]) {
			err = c.fail(transport.Faultf(transport.FaultMismatch, r, "rank %d has %s, rank 0 %s", r,
				saysInOrder(theirs, all), saysInOrder(all, all)), a.header(c.Seq))
		}
	}
	if err != nil {
		c.End()
		return nil, err
	}
	return o, nil
}

// GatherInOrder gives all ranks, in all, what each has in mine, elements of t, as the call engine.CallsInOrder[which].
func (c *Comm) GatherInOrder(ctx context.Context, which int, t kernel.DType, mine, all []byte) error {
	return c.Run(ctx, (&Args{as: uint8(engine.InOrder + which)}).gathers(c, t, mine, all))
}

// End ends the call.
func (o *InOrder) End() { o.c.End() }

// saysInOrder is what a rank has said when it began, for people. Another type than first says has no name here.
func saysInOrder(b, first []byte) string {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	if word(3) < 1<<16 { // of an operation
		return fmt.Sprintf("the %v of %d %v", kernel.Op(word(3)>>8), word(0), kernel.DType(word(3)))
	}
	text := fmt.Sprintf("%d elements of %d bytes", word(0), word(1))
	if word(3) != binary.LittleEndian.Uint64(first[8*3:]) {
		text += " of another type"
	}
	if root := int64(word(2)); root >= 0 {
		text += fmt.Sprintf(" for root %d", root)
	}
	return text
}

// Broadcast gives all ranks acc of rank 0.
func (o *InOrder) Broadcast(ctx context.Context, acc []byte) error {
	a := Args{as: o.args.as, In: acc, Out: acc}
	return o.c.Go(ctx, a.SetHost(o.c, plan.Broadcast, 0, kernel.Uint8, len(acc), len(acc)), &o.c.Waiter)
}

// Scatter gives each rank, in part, its part of all of rank 0.
func (o *InOrder) Scatter(ctx context.Context, all, part []byte) error {
	a := Args{as: o.args.as, In: all, Out: part}
	return o.c.Go(ctx, a.SetHost(o.c, plan.Scatter, 0, kernel.Uint8, len(all), len(part)), &o.c.Waiter)
}

// pass sends out to a rank, and receives what it sends in o.in if receives is set. Nothing is nothing to send.
func (o *InOrder) pass(ctx context.Context, peer int, out []byte, receives bool) error {
	var in []byte
	if receives {
		in = o.in
	}
	return o.c.Messages.exchange(ctx, o.args.name(), kernel.Uint8, []int{peer},
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
