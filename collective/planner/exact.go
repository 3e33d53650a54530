package planner

import "github.com/treerun/treerun/collective/plan"

// exactRanks is up to how many ranks exact trees are searched for without being asked
// for: the work is exponential.
const exactRanks = 8

// exact is, for every root, the balanced tree with the largest sum of rates.
func (p *Planner) exact(kind plan.Kind, root int) ([]*Candidate, error) {
	if err := p.searched("exact", kind, exactRanks); err != nil {
		return nil, err
	}
	return p.ofRoots("exact", kind, root)
}
