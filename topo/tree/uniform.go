package tree

import (
	"math/bits"
	"slices"

	"github.com/treerun/treerun/topo"
)

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
	order := sequence(n)
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

// Binomial returns the binomial tree of n ranks with this root, for links that are all
// alike: a rank's parent is as many ranks nearer to the root as the lowest bit of its
// distance, which also is its round: those at odd distances send in the first.
func Binomial(n, root int) topo.Tree {
	t := topo.Tree{Root: root, Parent: make([]int, n), Round: make([]int, n)}
	t.Parent[root] = -1
	for d := 1; d < n; d++ {
		t.Parent[(root+d)%n] = (root + d&(d-1)) % n
		t.Round[(root+d)%n] = bits.TrailingZeros(uint(d)) + 1
	}
	return t
}
