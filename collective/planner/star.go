package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// star has every rank send all to one rank, which hands the result out: a parameter server.
func (p *Planner) star(kind plan.Kind, root int) ([]*Candidate, error) {
	n := p.graph.Ranks
	switch {
	case p.ordered(kind) && p.hosts != nil && !p.hosts.alone():
		return nil, unordered()
	case kind.HasParts():
		return nil, reasonf("for allreduce, reduce, broadcast and barrier")
	case p.hosts.alone() && kind.HasRoot():
		return nil, reasonf("every host has one rank: see hierarchical")
	}
	hub := max(root, 0)
	if !complete(p.graph) {
		if t := tree.Star(p.graph, hub); t.Note != "" {
			if p.ordered(kind) {
				return nil, reasonf("rank %d has no link to some ranks, and those between would add in "+
					"another order", hub)
			}
			return p.overTrees(Candidate{Algorithm: "star", Kind: kind, Root: root}, &TreeSet{Trees: []topo.Tree{t}}, false)
		}
	}
	if kind == plan.Broadcast {
		return nil, reasonf("where all ranks have a link to the root: see direct")
	}
	return fixed("star", kind, root, func() (*plan.Plan, error) { return plan.Star(kind, n, hub) }), nil
}
