package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// star has every rank send all to one rank, which hands the result out: a parameter server. A collective of parts has
// a star for every part, on devices with paths where links are missing.
func star(q *query) ([]*Candidate, error) {
	s := q.site
	switch {
	case q.ordered() && s.hosts != nil && !s.hosts.alone():
		return nil, unordered()
	case q.kind.HasParts() && s.complete():
		return nil, reasonf("where all ranks have links to each other: see direct")
	case q.kind.HasParts() && !s.machine.Device && !q.requests(q.algorithm):
		return nil, reasonf("not tried for the links that it takes: --algorithm star does")
	case q.kind.HasParts():
		return ofRoots(stars)(q)
	case s.hosts.alone() && q.kind.HasRoot():
		return nil, reasonf("every host has one rank: see hierarchical")
	}
	hub := max(q.root, 0)
	t := topo.Tree{}
	if !s.complete() {
		t = tree.Star(s.full(), hub)
	}
	switch {
	case t.Note != "" && q.ordered():
		return nil, reasonf("rank %d has no link to some ranks, and those between would add in another order", hub)
	case t.Note != "":
		return q.overTrees(&TreeSet{Trees: []topo.Tree{t}}, false)
	case q.kind == plan.Broadcast:
		return nil, reasonf("where all ranks have a link to the root: see direct")
	}
	return q.fixed(func() (*plan.Plan, error) { return plan.Star(q.kind, s.graph.Ranks, hub) }), nil
}

// stars is a star for every root.
func stars(_ *Site, g *topo.Graph) (list []topo.Tree, err error) {
	for root := range g.Ranks {
		t := tree.Star(g, root)
		t.Note = "" // that it is none
		list = append(list, t)
	}
	return list, nil
}
