package planner

import "github.com/treerun/treerun/collective/plan"

// kl is one tree per root by the method of Kernighan and Lin, as in MXNet: made one
// after the other, each use of a link making it less attractive to later trees.
func (p *Planner) kl(kind plan.Kind, root int) ([]*Candidate, error) {
	return p.ofRoots("kl", kind, root)
}
