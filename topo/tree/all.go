package tree

import "github.com/treerun/treerun/topo"

// LinkUsagePenalty is the factor that All applies to the rate of a link each
// time a tree uses it. It is MXNet's default for the same purpose
// (MXNET_KVSTORE_TREE_LINK_USAGE_PENALTY).
const LinkUsagePenalty = 0.7

// All returns one tree per root, tree r with root r, meant to be used at the
// same time with equal shares of a message.
//
// The trees, exact ones up to MaxExact ranks and KL's above, are made in the order
// of their roots, and every use of a link lowers its rate for the later ones by
// LinkUsagePenalty, as MXNet does. Where
// the graph is complete, the shifts of one Uniform tree are the other choice:
// every link carries exactly two of them, and every rank has as many children
// as any other. Of the two, those trees are taken whose busiest link or port (trees
// that use it, over its rate) is less busy; the Uniform ones when equal. So
// ranks whose measured rates differ by noise get an even load.
func All(g *topo.Graph) []topo.Tree {
	n := g.Ranks
	var even []topo.Tree
	if len(g.Links) == n*(n-1)/2 {
		for root := range n {
			even = append(even, Uniform(n, root))
		}
		if g.IsUniform() {
			return even
		}
	}
	w := newNet(g)
	build := func(root int) topo.Tree { return newExact(w).tree(root) }
	if n > MaxExact {
		build = newKL(w, 0, klAttempts).tree
	}
	trees := w.inTurn(LinkUsagePenalty, build)
	if even != nil && busiest(g, even) <= busiest(g, trees) {
		return even
	}
	return trees
}

// inTurn makes one tree per root, one after the other. The rates of a tree's links are
// multiplied by penalty for the later ones; a link stays a link.
func (g *net) inTurn(penalty float64, build func(root int) topo.Tree) []topo.Tree {
	trees := make([]topo.Tree, g.n)
	for root := range trees {
		trees[root] = build(root)
		for v, p := range trees[root].Links() {
			g.set(v, p, max(g.at(v, p)*penalty, 1e-200))
		}
	}
	return trees
}
