//go:build linux

package bench

import (
	"slices"

	"github.com/treerun/treerun/collective/plan"
	calls "github.com/treerun/treerun/internal/call"
)

// Collective describes a collective that can be measured, without the call itself. Its other properties follow from its
// kind.
type Collective struct {
	Name     string    // on the command line and in the rows
	Kind     plan.Kind // 0: it has no plan
	OneByOne bool      // it has no form for several calls in flight
	Sparse   bool      // most of its data may be zero: there are densities and overlaps
}

// allCollectives are all that can be measured, in the order of "all". functions has the calls of each.
var allCollectives = []Collective{
	{Name: "allreduce", Kind: plan.AllReduce},
	{Name: "reduce", Kind: plan.Reduce},
	{Name: "broadcast", Kind: plan.Broadcast},
	{Name: "allgather", Kind: plan.AllGather},
	{Name: "reducescatter", Kind: plan.ReduceScatter},
	{Name: "alltoall", Kind: plan.AllToAll},
	{Name: "gather", Kind: plan.Gather},
	{Name: "scatter", Kind: plan.Scatter},
	{Name: "sendrecv", OneByOne: true},
	{Name: "barrier", Kind: plan.Barrier},
	{Name: "sparse-allreduce", Kind: plan.AllReduce, OneByOne: true, Sparse: true},
}

// is reports whether c is of one of these kinds.
func (c *Collective) is(kinds ...plan.Kind) bool { return slices.Contains(kinds, c.Kind) }

// empty reports whether c carries no data: it has one row, of size 0.
func (c *Collective) empty() bool { return c.is(plan.Barrier) }

// reduces reports whether c takes an operation.
func (c *Collective) reduces() bool { return calls.Kind(c.Kind).Reduces() }

// lengths returns the number of elements of a rank's input and result, of n ranks. As in nccl-tests, a message in parts
// is one block for each rank; its size is that of all blocks, and its count that of one.
func (c *Collective) lengths(count, n int) (send, recv int) {
	send, recv = count, count
	if c.is(plan.ReduceScatter, plan.AllToAll, plan.Scatter) {
		send *= n
	}
	if c.is(plan.AllGather, plan.AllToAll, plan.Gather) {
		recv *= n
	}
	return send, recv
}

// block is a part of a result: the elements of recv from at on.
type block struct {
	start, count int
	from         int // the rank whose input it is; -1: all ranks, combined
	offset       int // of its first element in that input
}

const allRanks = -1 // the combined input of all ranks

// result returns the blocks of the result of a call on rank me of size. It returns nothing for a sparse collective,
// which is compared in its own way, and for one without data.
func (c *Collective) result(me, size, root, count int) []block {
	if c.Sparse || c.empty() || c.is(plan.Reduce, plan.Gather) && me != root {
		return nil
	}
	send, parts := c.lengths(1, size)
	offset := 0
	if send > 1 {
		offset = me * count // the part for this rank
	}
	all := make([]block, parts)
	for q := range all {
		from := q
		switch {
		case c.reduces():
			from = allRanks
		case c.is(plan.Broadcast, plan.Scatter):
			from = root
		case c.Kind == 0:
			from = (me + size - 1) % size // data go round a ring
		}
		all[q] = block{q * count, count, from, offset}
	}
	return all
}

// find returns the collective of a name, nil when there is none.
func find(name string) *Collective {
	for i := range allCollectives {
		if allCollectives[i].Name == name {
			return &allCollectives[i]
		}
	}
	return nil
}

// busFactor is that of call.Kind. Sendrecv is a message.
func (c *Collective) busFactor(n int) float64 { return calls.Kind(c.Kind).BusFactor(n) }

// traffic returns the bytes that a rank must read and write at least, on the average of n ranks, for a message of the
// given size. Every rank can reach the memory of every other, so an input has to be read once, by some rank that
// combines it or passes it on while it is in its cache, and every result has to be written once, unless it is there
// already.
func (c *Collective) traffic(bytes int64, inPlace bool, n int) float64 {
	send, recv := c.lengths(1, n)
	read, written, ranks := float64(send), float64(recv), float64(n)
	if c.Kind.HasParts() {
		read, written = read/ranks, written/ranks
	}
	if c.is(plan.Broadcast, plan.Scatter) { // only the root has input
		read /= ranks
	}
	if c.is(plan.Reduce, plan.Gather) { // only the root has a result
		written /= ranks
	}
	switch own := written / ranks; {
	case c.empty():
		return 0
	case !inPlace:
	case c.Sparse:
		written = 0
	case !c.reduces():
		written -= own
		if c.is(plan.AllToAll, plan.Gather, plan.Scatter) { // no other rank needs a rank's own part
			read -= own
		}
	}
	return float64(bytes) * (read + written)
}
