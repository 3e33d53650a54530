package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// star has every rank send all to one rank, which hands the result out: a parameter server.
func (p *Planner) star(kind plan.Kind, root int) ([]*Candidate, error) {
	n := p.Site.graph.Ranks
	switch {
	case p.Site.ordered(kind) && p.Site.hosts != nil && !p.Site.hosts.alone():
		return nil, unordered()
	case kind.HasParts():
		return nil, reasonf("for allreduce, reduce, broadcast and barrier")
	case p.Site.hosts.alone() && kind.HasRoot():
		return nil, reasonf("every host has one rank: see hierarchical")
	}
	hub := max(root, 0)
	if !complete(p.Site.graph) {
		if t := tree.Star(p.Site.graph, hub); t.Note != "" {
			if p.Site.ordered(kind) {
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
