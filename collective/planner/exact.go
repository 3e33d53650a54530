package planner

import "github.com/treerun/treerun/collective/plan"

// exact is, for every root, the balanced tree with the largest sum of rates.
func (p *Planner) exact(kind plan.Kind, root int) ([]*Candidate, error) {
	return p.ofRoots("exact", kind, root)
}
