package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// chain is one path through all ranks from the root, over quick links: for large
// messages cut into many chunks.
func (p *Planner) chain(kind plan.Kind, root int) ([]*Candidate, error) {
	if err := p.searched("chain", kind, searchedRanks); err != nil {
		return nil, err
	}
	t, err := tree.Chain(p.graph, max(root, 0))
	if err != nil {
		return nil, err
	}
	return p.overTrees(Candidate{Algorithm: "chain", Kind: kind, Root: root}, &Forest{Trees: []topo.Tree{t}})
}
