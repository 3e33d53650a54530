package main

import (
	"context"

	"github.com/treerun/treerun/collective"
)

// A sum of floating-point numbers depends on the order of its additions. This file adds up the vectors of the
// microbatches along one binary tree, whichever rank computes which of them: microbatches 0 and 1, 2 and 3 and so on,
// then these sums in pairs, up to the root. So the sum has the same bits for any number of ranks.

// subtree is the sum of an aligned part of the microbatches: first is a multiple of size, a power of two.
type subtree struct {
	first, size int
	sum         []float32
}

// partialSums are sums of microbatches in ascending order, of which no two are halves of a larger subtree.
type partialSums struct {
	subtrees []subtree
	free     [][]float32 // vectors of earlier ones
}

// add appends the subtree that follows, and adds up the halves of larger ones.
func (p *partialSums) add(s subtree) {
	for last := len(p.subtrees) - 1; last >= 0; last-- {
		left := p.subtrees[last]
		if left.size != s.size || left.first%(2*s.size) != 0 {
			break
		}
		for i, v := range s.sum {
			left.sum[i] += v
		}
		p.free, p.subtrees = append(p.free, s.sum), p.subtrees[:last]
		s = subtree{left.first, 2 * left.size, left.sum}
	}
	p.subtrees = append(p.subtrees, s)
}

// vector returns a vector of n elements, like all that are added, with any contents.
func (p *partialSums) vector(n int) []float32 {
	last := len(p.free) - 1
	if last < 0 {
		return make([]float32, n)
	}
	v := p.free[last]
	p.free = p.free[:last]
	return v
}

// clear removes all subtrees.
func (p *partialSums) clear() {
	for _, s := range p.subtrees {
		p.free = append(p.free, s.sum)
	}
	p.subtrees = p.subtrees[:0]
}

// subtreesOf returns the subtrees of which microbatches from up to, not including, to consist, without sums.
func subtreesOf(from, to int) []subtree {
	var p partialSums
	for m := from; m < to; m++ {
		p.add(subtree{first: m, size: 1})
	}
	return p.subtrees
}

// exchange adds up vectors of all ranks along the tree. Each rank adds up one segment of them, as in a ReduceScatter,
// and an AllGather follows. Only the vectors at the roots of a rank's subtrees travel. If every rank has one, as with
// 2, 4, 8 or 16 ranks, these are as many bytes as those of an AllReduce.
type exchange struct {
	c        *collective.Comm
	subtrees [][]subtree // by rank
	segments []int       // by rank: the elements that it adds up
	nothing  []int       // by rank: 0
	counts   [][]int     // by round, then by rank: the elements that it sends to each rank
	received [][]float32 // by round
}

// newExchange makes the exchange of the ranks of c for vectors of n elements, of which there is one per microbatch.
func newExchange(c *collective.Comm, microbatches, n int) *exchange {
	x := &exchange{c: c, nothing: make([]int, c.Size())}
	for r := range c.Size() {
		from, to := shard(n, r, c.Size())
		x.segments = append(x.segments, to-from)
		x.subtrees = append(x.subtrees, subtreesOf(shard(microbatches, r, c.Size())))
	}
	own := x.segments[c.Rank()]
	for round := 0; ; round++ { // each rank sends its next subtree, while it has one
		counts, total := make([]int, c.Size()), 0
		for r, subtrees := range x.subtrees {
			if round < len(subtrees) {
				counts[r] = own
				total += own
			}
		}
		if total == 0 {
			return x
		}
		x.counts, x.received = append(x.counts, counts), append(x.received, make([]float32, total))
	}
}

// sum sets total, on every rank, to the sum of the vectors of all microbatches. own are the sums of this rank's.
func (x *exchange) sum(ctx context.Context, own []subtree, total []float32) error {
	for round, counts := range x.counts {
		send, sendCounts := []float32(nil), x.nothing
		if round < len(own) {
			send, sendCounts = own[round].sum, x.segments
		}
		if err := collective.AllToAllV(ctx, x.c, send, sendCounts, x.received[round], counts); err != nil {
			return err
		}
	}
	var all partialSums
	segment, at := x.segments[x.c.Rank()], make([]int, len(x.counts))
	for _, subtrees := range x.subtrees {
		for round, s := range subtrees {
			s.sum = x.received[round][at[round]:][:segment]
			at[round] += segment
			all.add(s)
		}
	}
	return collective.AllGatherV(ctx, x.c, all.subtrees[0].sum, total, x.segments)
}
