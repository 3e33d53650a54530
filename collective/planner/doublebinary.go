package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/tree"
)

// doubleBinary is NCCL's pair of binary trees over all ranks, each with half of the
// message, in which no rank is inside both.
func doubleBinary(q *query) ([]*Candidate, error) {
	s := q.site
	switch {
	case q.kind == plan.Barrier:
		return nil, reasonf("a barrier carries no data")
	case s.hosts.alone():
		return nil, reasonf("every host has one rank: its trees are those between hosts")
	case s.hosts != nil && s.graph.Ranks > PairRanks && !q.requests(q.algorithm):
		return nil, reasonf("not tried above %d ranks of several hosts for the links that it takes: "+
			"see hierarchical", PairRanks)
	}
	f, err := q.found.get(q.algorithm, s.graph.Ranks, func() (*TreeSet, error) {
		return &TreeSet{Trees: tree.DoubleBinaryOn(s.full())}, nil
	})
	if err != nil {
		return nil, err
	}
	return q.overTrees(f, false)
}

// doubleBinaryPays reports whether double binary trees are worth their links: on more ranks than have a link to each
// other.
func doubleBinaryPays(s *Site, kind plan.Kind) bool {
	return s.graph.Ranks > PairRanks && (!s.uniform || kind.HasRoot())
}
