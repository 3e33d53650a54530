package tree

import (
	"math/bits"

	"github.com/treerun/treerun/topo"
)

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
