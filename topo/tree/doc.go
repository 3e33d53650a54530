// Package tree builds trees and rings from a topo.Graph:
//
//   - Exact, the balanced reduce tree of the largest total rate, of small
//     graphs;
//   - KL and Greedy, heuristics for balanced reduce trees of larger ones;
//   - All, KLAll and Multi, one tree per root that share the links;
//   - DoubleBinary, NCCL's two complementary trees;
//   - Uniform, one tree per root that share equal links evenly, and Binomial, the
//     plain binomial tree;
//   - BestRing, Rings, Chain and Star, to compare with.
//
// It is pure, as topo is, and imports topo only. It knows nothing of plans,
// messages or links in use; package plan makes collectives from its trees.
//
// Every builder gives a spanning tree of every connected graph. Where the
// balanced reduce tree it looks for does not exist, the tree's Note says what
// came in its place. Equal candidates are decided by the lowest rank, so that
// the same graph gives the same trees on every machine.
package tree

import (
	"fmt"

	"github.com/treerun/treerun/topo"
)

// MaxExact is the largest number of ranks for which Exact works.
const MaxExact = 16

// LinkUsagePenalty is the factor that All applies to the rate of a link each
// time a tree uses it. It is MXNet's default for the same purpose
// (MXNET_KVSTORE_TREE_LINK_USAGE_PENALTY).
const LinkUsagePenalty = 0.7

// Best returns the balanced reduce tree of the largest total rate with the
// given root: Exact up to MaxExact ranks, Greedy above. On a uniform graph,
// where all balanced trees are equal, it is Uniform's. The error is for a graph
// that is not valid (a *topo.DisconnectedError among others) or a root that is
// not one of its ranks.
func Best(g *topo.Graph, root int) (topo.Tree, error) {
	if err := check(g, root); err != nil {
		return topo.Tree{}, err
	}
	if g.IsUniform() {
		return Uniform(g.Ranks, root), nil
	}
	return best(newNet(g), root, 1), nil
}

func check(g *topo.Graph, root int) error {
	if err := g.Validate(); err != nil {
		return err
	}
	if root < 0 || root >= g.Ranks {
		return fmt.Errorf("tree: root %d is not a rank of 0..%d", root, g.Ranks-1)
	}
	return nil
}

// best returns the tree of the exact search, or a heuristic one, for one of so
// many roots.
func best(g *net, root, roots int) topo.Tree {
	if g.n <= MaxExact {
		return newExact(g).tree(root)
	}
	return greedy(g, root, matchings(g, roots))
}
