package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/tree"
)

// doubleBinary is NCCL's pair of binary trees over all ranks, each with half of the
// message, in which no rank is inside both.
func (p *Planner) doubleBinary(kind plan.Kind, root int) ([]*Candidate, error) {
	parts := kind == plan.AllGather || kind == plan.ReduceScatter
	switch {
	case p.ordered(kind):
		return nil, unordered()
	case !spreads(kind) && !(parts && p.hosts == nil && p.graph.Ranks > PairRanks):
		return nil, because("for allreduce, reduce and broadcast, and on one host above %d ranks allgather and reducescatter", PairRanks)
	case p.hosts.alone():
		return nil, because("every host has one rank: its trees are those between hosts")
	case p.asked("double-binary"):
	case p.hosts == nil && p.graph.Ranks <= directRanks:
		return nil, because("up to %d ranks of one host other trees are as low", directRanks)
	case p.hosts == nil && (p.graph.Ranks <= PairRanks || p.uniform && !kind.HasRoot()):
		return nil, because("on one host not tried up to %d ranks, or where all links are alike", PairRanks)
	case p.hosts == nil:
	default:
		return nil, because("between hosts: see hierarchical")
	}
	f, err := p.forest("double-binary", p.graph.Ranks, func() (*Forest, error) {
		trees, err := tree.DoubleBinaryOn(p.graph)
		return &Forest{Trees: trees}, err
	})
	if err != nil {
		return nil, err
	}
	return p.overTrees(Candidate{Algorithm: "double-binary", Kind: kind, Root: root}, f)
}
