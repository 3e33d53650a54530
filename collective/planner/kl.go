package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/tree"
)

// kl is one tree per root by the method of Kernighan and Lin, as in MXNet: made one
// after the other, each use of a link making it less attractive to later trees.
func (p *Planner) kl(kind plan.Kind, root int) ([]*Candidate, error) {
	return p.ofRoots("kl", kind, root)
}

// penalty is the factor on a link's rate each time a tree of kl uses it.
func (p *Planner) penalty() float64 {
	if p.options.Penalty == 0 {
		return tree.LinkUsagePenalty
	}
	return p.options.Penalty
}
