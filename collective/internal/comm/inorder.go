package comm

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// InOrder is a call of a kind that combines the elements of the ranks in the order of the ranks, by messages, for
// operations that may not be commutative, and for Scan.
func InOrder(k call.Kind) *Args { return NewArgs(call.ID{Kind: k}) }

// SetInOrder sets, and checks, a call InOrder, in which this rank gives count elements of size bytes and has room for
// recvs, -1 where it gets none; root is -1 where there is none, and id distinguishes operations and types. The ranks
// compare all of these. Then follow makes the rounds, in which combine combines into, of lower ranks, with from, of
// higher ones, and stores the result in into.
func (a *Args) SetInOrder(c *Comm, count, recvs, size, root int, id uint64, combine func(into, from []byte),
	follow func(o *Rounds)) *Args {
	switch {
	case a.Err != nil:
	case recvs >= 0 && recvs != count:
		a.Refuse(c, "send has %d elements, recv %d", count, recvs)
	case root >= c.Size || root < -1 || root < 0 && a.ID.Kind == call.ReduceFunc:
		a.Refuse(c, "root %d of %d ranks", root, c.Size)
	case c.Size > 1 && c.Plans.Messages < 0:
		a.Refuse(c, "it is for %s", c.Plans.NoMessages())
	}
	var mine []byte
	for _, v := range []uint64{uint64(count), uint64(size), uint64(root), id} {
		mine = binary.LittleEndian.AppendUint64(mine, v)
	}
	all := make([]byte, len(mine)*c.Size)
	a.own = count * size
	a.follow = func() []engine.Round {
		o := &Rounds{c: c, in: make([]byte, count*size), combine: combine}
		o.list = []engine.Round{{Then: func() error { return compareInOrder(all, len(mine)) }}}
		if count > 0 {
			follow(o)
		}
		return o.list
	}
	return a.SetGather(c, kernel.Int64, mine, all)
}

// compareInOrder compares the descriptions that the ranks have given of the call, of the given number of bytes each.
func compareInOrder(all []byte, each int) error {
	for r := 1; r < len(all)/each; r++ {
		if theirs := all[r*each:][:each]; string(theirs) != string(all[:each]) {
			return transport.Faultf(transport.FaultMismatch, r, "rank %d has %s, rank 0 %s", r, describeInOrder(theirs, all),
				describeInOrder(all, all))
		}
	}
	return nil
}

// describeInOrder describes, for users, the call that a rank has begun. A type other than that of first has no name
// here.
func describeInOrder(b, first []byte) string {
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

// Rounds makes the rounds of a call.
type Rounds struct {
	c       *Comm
	list    []engine.Round
	in      []byte // received from a peer, to be combined
	combine func(into, from []byte)
}

// Add adds a round of passes, after which this rank does then.
func (o *Rounds) Add(then func(), passes ...p2p.Pass) {
	o.list = append(o.list, engine.Round{Passes: passes, Then: func() error {
		then()
		return nil
	}})
}

func nothing() {}

// Broadcast gives all ranks acc of rank 0, down the tree of Reduce.
func (o *Rounds) Broadcast(acc []byte) {
	up := 1
	for ; up < o.c.Size && o.c.Rank&up == 0; up *= 2 {
	}
	if o.c.Rank > 0 {
		o.Add(nothing, p2p.Pass{Peer: o.c.Rank - up, In: acc})
	}
	var down []p2p.Pass
	for step := up / 2; step > 0; step /= 2 {
		if peer := o.c.Rank + step; peer < o.c.Size {
			down = append(down, p2p.Pass{Peer: peer, Out: acc})
		}
	}
	o.Add(nothing, down...)
}

// Scatter gives each rank, in part, its part of all of rank 0.
func (o *Rounds) Scatter(all, part []byte) {
	passes := []p2p.Pass{{Peer: 0, In: part}}
	if o.c.Rank == 0 {
		passes = passes[:0]
		for r, n := 0, len(part); r < o.c.Size; r++ {
			passes = append(passes, p2p.Pass{Peer: r, Out: all[r*n:][:n]})
		}
		passes[0].In = part
	}
	o.Add(nothing, passes...)
}

// Reduce combines acc of all ranks into that of rank 0, up a binomial tree of neighbors.
func (o *Rounds) Reduce(acc []byte) {
	for step := 1; step < o.c.Size; step *= 2 {
		if o.c.Rank&step != 0 {
			o.Add(nothing, p2p.Pass{Peer: o.c.Rank - step, Out: acc})
			return
		}
		if peer := o.c.Rank + step; peer < o.c.Size {
			o.Add(func() { o.combine(acc, o.in) }, p2p.Pass{Peer: peer, In: o.in})
		}
	}
}

// Hand takes acc from rank 0 to root, in acc of that.
func (o *Rounds) Hand(acc []byte, root int) {
	if root > 0 && o.c.Rank == 0 {
		o.Add(nothing, p2p.Pass{Peer: root, Out: acc})
	} else if root > 0 && o.c.Rank == root {
		o.Add(nothing, p2p.Pass{Peer: 0, In: acc})
	}
}

// Scan combines the inputs of all ranks up to this one into acc, which holds the input of this rank; exclusive leaves
// this one out: acc of rank 0 stays. Recursive doubling, as in MPICH.
func (o *Rounds) Scan(acc []byte, exclusive bool) {
	block, in, empty := bytes.Clone(acc), o.in, exclusive
	for step := 1; step < o.c.Size; step *= 2 {
		peer := o.c.Rank ^ step
		if peer >= o.c.Size {
			continue
		}
		own, theirs, first := block, in, empty // block is of the ranks that agree with this one above the step's bit
		pass := p2p.Pass{Peer: peer, Out: own, In: theirs}
		if peer > o.c.Rank {
			o.Add(func() { o.combine(own, theirs) }, pass)
			continue
		}
		o.Add(func() {
			before := bytes.Clone(theirs)
			o.combine(theirs, own)
			if !first {
				o.combine(before, acc)
			}
			copy(acc, before)
		}, pass)
		block, in, empty = theirs, own, false
	}
}
