package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// chain is one path through all ranks from the root, over quick links: for large messages cut into many chunks. Where
// one order is requested, and links differ, it is trees along which sums grow from rank to rank, in the order of the
// ranks.
func (p *Planner) chain(kind plan.Kind, root int) ([]*Candidate, error) {
	if p.Site.ordered(kind) {
		if p.Site.hosts != nil || p.Site.uniform {
			return nil, unordered()
		}
		return p.ofRoots("chain", kind, root)
	}
	trees := []topo.Tree{tree.Chain(p.Site.graph, max(root, 0))}
	return p.overTrees(Candidate{Algorithm: "chain", Kind: kind, Root: root}, &TreeSet{Trees: trees}, false)
}
