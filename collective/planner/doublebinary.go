package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/tree"
)

// doubleBinary is NCCL's pair of binary trees over all ranks, each with half of the
// message, in which no rank is inside both.
func (p *Planner) doubleBinary(kind plan.Kind, root int) ([]*Candidate, error) {
	switch {
	case kind == plan.Barrier:
		return nil, reasonf("a barrier carries no data")
	case p.Site.hosts.alone():
		return nil, reasonf("every host has one rank: its trees are those between hosts")
	case p.Site.hosts != nil && p.Site.graph.Ranks > PairRanks && !p.asked("double-binary"):
		return nil, reasonf("not tried above %d ranks of several hosts for the links that it takes: "+
			"see hierarchical", PairRanks)
	}
	f, err := p.treeSet("double-binary", p.Site.graph.Ranks, func() (*TreeSet, error) {
		return &TreeSet{Trees: tree.DoubleBinaryOn(p.Site.graph)}, nil
	})
	if err != nil {
		return nil, err
	}
	return p.overTrees(Candidate{Algorithm: "double-binary", Kind: kind, Root: root}, f, false)
}
