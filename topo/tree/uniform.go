package tree

import "github.com/treerun/treerun/topo"

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
	t := topo.Tree{Parent: []int{-1}, Round: []int{0}}
	for _, n := range sizes(n) {
		t = doubled(t, n)
	}
	return t.Shift(root)
}

// sizes returns the numbers of ranks on the way from 1, exclusive, to n by
// halving n and rounding up.
func sizes(n int) []int {
	if n <= 1 {
		return nil
	}
	return append(sizes((n+1)/2), n)
}

// doubled makes the graceful tree of n ranks with root 0 from the one of
// (n+1)/2.
func doubled(half topo.Tree, n int) topo.Tree {
	m := len(half.Parent)
	t := topo.Tree{Parent: make([]int, n), Round: make([]int, n)}
	t.Parent[0] = -1
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
