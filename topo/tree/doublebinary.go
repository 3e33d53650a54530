package tree

import (
	"fmt"
	"math/bits"

	"github.com/treerun/treerun/topo"
)

// Variant says how the second of two complementary binary trees is made from
// the first: rank r of tree 1 takes the place that another rank has in tree 0.
type Variant int

// The variants. Tree 0 is the same in all of them: even ranks are inside, odd
// ones are leaves. A useful tree 1 has it the other way round.
const (
	// Current is what NCCL does since 2.8: Shift for odd n, Mirror for even n.
	Current Variant = iota
	// Shift gives rank r the place r-1, and rank 0 the place n-1. The design
	// document's drawing of it for 13 ranks has ranks 0 and 1 of tree 1 exchanged:
	// there 0 is the root of both trees, here 1 is that of tree 1.
	Shift
	// Mirror gives rank r the place n-1-r. For odd n that would leave the same
	// ranks inside both trees, so rank r takes the place n-r there, and rank 0
	// keeps its own. The design document draws n-r for 12 ranks, too, finds odd
	// ranks leaves of both trees, and concludes that even n cannot be mirrored;
	// n-1-r can.
	Mirror
)

// Neighbours returns the parent of a rank in tree which (0 or 1) of the two
// complementary binary trees of n ranks, -1 for the root, and its children, -1
// where there is none; the second only behind a first. It takes O(log n) time
// and no memory: no tree is built. It panics unless 0 <= rank < n and which is
// 0 or 1.
//
// The trees are those of Sanders, Speck and Traeff ("Two-tree algorithms for
// full bandwidth broadcast, reduction and scan", 2009) in NCCL's numbering.
// Both are ceil(log2 n) deep. No rank is inside both of them, but for odd n
// rank 0, so that with half of the data on each tree every rank takes in and
// sends out the data about twice. Do not rely on the order of the children:
// tree 1 may have the higher rank first.
func Neighbours(n, rank, which int, v Variant) (parent int, children [2]int) {
	if n < 1 || rank < 0 || rank >= n || which < 0 || which > 1 {
		panic(fmt.Sprintf("tree: neighbours of rank %d of %d in tree %d", rank, n, which))
	}
	if which == 0 {
		return binary(n, rank)
	}
	shift := v == Shift || v == Current && n%2 == 1
	parent, children = binary(n, place(n, rank, shift, 1))
	parent = place(n, parent, shift, n-1)
	for i, c := range children {
		children[i] = place(n, c, shift, n-1)
	}
	return parent, children
}

// place maps the ranks of tree 1 to their places in tree 0 with back = 1, and
// places to ranks with back = n-1. A mirror is its own inverse.
func place(n, r int, shift bool, back int) int {
	switch {
	case r < 0:
		return r
	case shift:
		return (r + n - back) % n
	case n%2 == 0:
		return n - 1 - r
	}
	return (n - r) % n
}

// binary is tree 0: above a rank stands the one that differs in its lowest set
// bit and the next; rank 0, without a set bit, is the root over the highest
// power of two.
func binary(n, rank int) (parent int, children [2]int) {
	children = [2]int{-1, -1}
	if rank == 0 {
		if n > 1 {
			children[0] = 1 << (bits.Len(uint(n-1)) - 1)
		}
		return -1, children
	}
	bit := rank & -rank
	parent = rank&^bit | bit<<1
	if parent >= n {
		parent = rank &^ bit
	}
	half := bit >> 1
	if half == 0 {
		return parent, children
	}
	children[0] = rank - half
	for ; half > 0; half >>= 1 { // the right side may be cut off by n
		if rank+half < n {
			children[1] = rank + half
			break
		}
	}
	return parent, children
}

// DoubleBinary returns the two complementary binary trees of n ranks that
// Neighbours describes. They have no rounds: they are meant for messages cut
// into many chunks.
func DoubleBinary(n int, v Variant) [2]topo.Tree {
	var trees [2]topo.Tree
	for which := range trees {
		t := topo.Tree{Parent: make([]int, n)}
		for r := range n {
			t.Parent[r], _ = Neighbours(n, r, which, v)
			if t.Parent[r] < 0 {
				t.Root = r
			}
		}
		trees[which] = t
	}
	return trees
}
