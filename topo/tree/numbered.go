package tree

import (
	"math/bits"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// DoubleBinary returns the two complementary binary trees of n ranks: those of Sanders,
// Speck and Traeff ("Two-tree algorithms for full bandwidth broadcast, reduction and scan",
// 2009) in NCCL's numbering. They have no rounds: they are meant for messages cut into
// many chunks.
//
// Both are ceil(log2 n) deep. No rank is inside both of them, but for odd n
// rank 0, so that with half of the data on each tree every rank takes in and
// sends out the data about twice.
//
// In the second a rank takes the place that another one has in the first, as in NCCL since
// 2.8: rank r that of r-1 for odd n, and that of n-1-r for even n.
func DoubleBinary(n int) []topo.Tree {
	first := topo.Tree{Parent: make([]int, n)}
	for v := range n {
		first.Parent[v] = above(n, v)
	}
	order := numbers.Below(n) // by place: the rank in the second tree
	if n%2 == 1 {
		order = append(order[1:], 0)
	} else {
		slices.Reverse(order)
	}
	return []topo.Tree{first, first.Renamed(order)}
}

// above is the parent of a rank in the first tree: the one that differs in its lowest set
// bit and the next. Even ranks are inside, odd ones are leaves; rank 0, without a set bit,
// is the root, over the highest power of two.
func above(n, rank int) int {
	if rank == 0 {
		return -1
	}
	bit := 1 << bits.TrailingZeros(uint(rank))
	if parent := rank&^bit | bit<<1; parent < n {
		return parent
	}
	return rank &^ bit
}

// maxRenamed is the number of ranks up to which DoubleBinaryOn looks for a
// better order of the ranks than the one they have.
const maxRenamed = 128

// DoubleBinaryOn returns the two trees of DoubleBinary over the ranks of g, in
// an order of ranks that makes use of links which g has, quick ones first.
//
// The trees are made for networks in which every rank reaches every other. Where g lacks a link they need, the quickest
// links that keep the tree connected come in its place, and the tree's Note gives their number; it may be deeper then.
func DoubleBinaryOn(g *topo.Graph) []topo.Tree {
	w := newNet(g)
	trees := DoubleBinary(g.Ranks)
	order := numbers.Below(g.Ranks)
	if g.Ranks <= maxRenamed && !g.IsUniform() {
		p := newPlacing(w, trees...)
		p.climb(-1)
		order = p.order
	}
	for i, t := range trees {
		trees[i] = mend(w, t.Renamed(order))
	}
	return trees
}

// Uniform returns a balanced reduce tree of n ranks for a graph in which all
// links are equal. Its edges join ranks at the differences 1..n-1, each once,
// so that the n trees of all roots, which are one tree shifted by the root,
// put exactly two trees on every one of the n(n-1)/2 links, and n-1 children
// on every rank.
//
// A tree whose edges have the differences 1..n-1 is called graceful. This one
// is made from the graceful tree of half the ranks by the step of Broersma and
// Hoede ("Another equivalent of the graceful tree conjecture", 1999): rank f
// becomes 2f, which doubles every difference, and receives in round 1 from the
// new rank 2m-1-2f, which gives the odd differences. An odd n leaves out rank
// 2m-1, and the root is idle in round 1. For n = 2^k it is the binomial tree.
func Uniform(n, root int) topo.Tree {
	order := numbers.Below(n)
	return graceful(n).Renamed(slices.Concat(order[root:], order[:root]))
}

// graceful makes the graceful tree of n ranks with root 0 from the one of
// half as many.
func graceful(n int) topo.Tree {
	t := topo.Tree{Parent: make([]int, n), Round: make([]int, n)}
	t.Parent[0] = -1
	if n == 1 {
		return t
	}
	m := (n + 1) / 2
	half := graceful(m)
	for f, p := range half.Parent {
		if f > 0 {
			t.Parent[2*f] = 2 * p
			t.Round[2*f] = half.Round[f] + 1
		}
		if leaf := 2*m - 1 - 2*f; leaf < n {
			t.Parent[leaf] = 2 * f
			t.Round[leaf] = 1
		}
	}
	return t
}

// Binomial returns the binomial tree of n ranks with this root, for equal links: a rank's parent is as many ranks
// nearer to the root as the lowest bit of its distance, which also is its round: those at odd distances send in the
// first.
func Binomial(n, root int) topo.Tree {
	t := topo.Tree{Root: root, Parent: make([]int, n), Round: make([]int, n)}
	t.Parent[root] = -1
	for d := 1; d < n; d++ {
		t.Parent[(root+d)%n] = (root + d&(d-1)) % n
		t.Round[(root+d)%n] = bits.TrailingZeros(uint(d)) + 1
	}
	return t
}
