package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// multi is one balanced tree per root, for messages cut into as many equal parts: made
// jointly up to jointRanks, one after the other above. Small messages take one of them.
func multi(q *query) ([]*Candidate, error) {
	n := q.site.graph.Ranks
	switch {
	case q.site.uniform:
	case n > jointRanks && !q.requests(q.algorithm):
		return nil, tooMuchWork(q.algorithm, jointRanks)
	default:
		return ofRoots(multiTrees)(q)
	}
	c := q.candidate()                                     // the trees of one root, shifted by the others
	c.shifts = !q.kind.HasRoot() && q.kind != plan.Barrier // which carries nothing: one is as good
	c.Channels = []Channel{{Tree: tree.Uniform(n, max(q.root, 0)), OfPart: q.kind.HasParts()}}
	for r := 1; r < n && c.shifts; r++ {
		c.Channels = append(c.Channels, Channel{Tree: topo.Tree{Root: r}, OfPart: q.kind.HasParts()})
	}
	return q.ofChannels(c, nil)
}

func multiTrees(_ *Site, g *topo.Graph) ([]topo.Tree, error) { return tree.Multi(g), nil }

// multiPays reports whether balanced trees are worth their links.
func multiPays(s *Site, kind plan.Kind) bool {
	n := s.graph.Ranks
	return !s.uniform || n > directRanks && (n <= PairRanks || !kind.HasRoot())
}
