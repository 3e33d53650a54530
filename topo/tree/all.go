package tree

import (
	"fmt"

	"github.com/treerun/treerun/topo"
)

// All returns one tree per root, tree r with root r, meant to be used at the
// same time with equal shares of a message.
//
// The trees are made in the order of their roots, and every use of a link
// lowers its rate for the later ones by LinkUsagePenalty, as MXNet does. Where
// the graph is complete, the shifts of one Uniform tree are the other choice:
// every link carries exactly two of them, and every rank has as many children
// as any other. Of the two, those trees are taken whose busiest link (trees
// that use it, over its rate) is less busy; the Uniform ones when equal. So
// ranks whose measured rates differ by noise get an even load.
func All(g *topo.Graph) ([]topo.Tree, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	n := g.Ranks
	var even []topo.Tree
	if len(g.Links) == n*(n-1)/2 {
		for root := range n {
			even = append(even, Uniform(n, root))
		}
		if g.IsUniform() {
			return even, nil
		}
	}
	trees := penalised(newNet(g))
	if even != nil && busiest(g, even) <= busiest(g, trees) {
		return even, nil
	}
	return trees, nil
}

// Cut says, in words for people, where All and Multi search less than they do
// on small graphs, so that they end after seconds; it is empty where they do
// not. With joint it speaks of Multi, otherwise of All.
func Cut(g *topo.Graph, joint bool) string {
	w := newNet(g)
	switch {
	case g.IsUniform() || g.Ranks <= MaxExact:
		return ""
	case matchings(w, g.Ranks) == 0:
		return fmt.Sprintf("%d trees of %d links are too many for a search: every tree is made in one go", g.Ranks, len(g.Links))
	case matchings(w, g.Ranks) < attempts(g.Ranks), joint && (g.Ranks > maxMatrix/4 || g.Ranks > 2*MaxExact && answers(g) < 3*g.Ranks):
		return fmt.Sprintf("the search is cut short for %d trees of %d links: better ones may exist", g.Ranks, len(g.Links))
	}
	return ""
}

// penalised makes a tree per root, one after the other. It lowers the rates of
// g.
func penalised(g *net) []topo.Tree {
	trees := make([]topo.Tree, g.n)
	for root := range trees {
		trees[root] = best(g, root, g.n)
		g.use(trees[root], LinkUsagePenalty)
	}
	return trees
}

// busiest returns the load of the busiest link: the trees that use it over its
// rate.
func busiest(g *topo.Graph, trees []topo.Tree) float64 {
	w := newNet(g)
	uses := make(map[[2]int]int)
	most := 0.0
	for _, t := range trees {
		for v, p := range t.Parent {
			if p >= 0 {
				key := [2]int{min(v, p), max(v, p)}
				uses[key]++
				most = max(most, float64(uses[key])/w.at(v, p))
			}
		}
	}
	return most
}
