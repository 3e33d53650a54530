package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// exactRanks is up to how many ranks exact trees are searched for without being asked
// for: the work is exponential.
const exactRanks = 8

// exact is, for every root, the balanced tree with the largest sum of rates.
func (p *Planner) exact(kind plan.Kind, root int) ([]*Candidate, error) {
	if err := p.searched("exact", kind, exactRanks); err != nil {
		return nil, err
	}
	f, err := p.forest("exact", p.graph.Ranks, func() (*Forest, error) {
		return p.perRoot(everyExact)
	})
	if err != nil {
		return nil, err
	}
	return p.ofRoots("exact", f, kind, root)
}

// everyExact returns the exact tree of every root of a graph.
func everyExact(g *topo.Graph) (list []topo.Tree, err error) {
	for root := range g.Ranks {
		t, err := tree.Exact(g, root)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}
