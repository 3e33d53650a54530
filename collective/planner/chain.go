package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// chain is one path through all ranks from the root, over quick links: for large messages cut into many chunks. Where
// one order is requested, and links differ, it is trees along which sums grow from rank to rank, in the order of the
// ranks, as always in a scan.
func chain(q *query) ([]*Candidate, error) {
	s := q.site
	switch {
	case q.kind.Scans():
		return q.scan(plan.InARow)
	case q.ordered() && (s.hosts != nil || s.uniform):
		return nil, unordered()
	case q.ordered():
		return ofRoots(chainsInOrder)(q)
	}
	return q.overTrees(&TreeSet{Trees: []topo.Tree{tree.Chain(s.full(), max(q.root, 0))}}, false)
}

// chainsInOrder makes for every root a tree along which sums grow in the order of the ranks.
func chainsInOrder(_ *Site, g *topo.Graph) (list []topo.Tree, err error) {
	for root, t := range tree.InOrder(g, g.Ranks) {
		list = append(list, t.Reroot(root))
	}
	if list == nil {
		return nil, reasonf("the links do not join the ranks in their order")
	}
	return list, nil
}

// chainPays reports whether a chain is worth its links: for AllReduce, where links differ.
func chainPays(s *Site, kind plan.Kind) bool {
	return !s.uniform && !kind.HasRoot() && !kind.HasParts()
}
