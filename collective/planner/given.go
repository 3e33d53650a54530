package planner

import (
	"github.com/treerun/treerun/collective/plan"
)

// Given is a plan that was read from a file. It serves the calls of its kind and root.
type Given struct {
	served *Served
	used   bool // by a call
}

// Again returns the same plan for another Planner, unused.
func (g *Given) Again() *Given {
	served := *g.served
	served.Attached = nil
	return &Given{served: &served}
}

// Used reports whether calls have run the plan.
func (g *Given) Used() bool { return g.used }

// NewGiven returns a given plan that algorithm has made, for people, and that cuts
// messages into chunks of so many bytes; 0: as the communicator does. It is verified.
func NewGiven(p *plan.Plan, algorithm string, chunkBytes int) (*Given, error) {
	if err := plan.Verify(p, minSlots); err != nil {
		return nil, err
	}
	c := &Candidate{Algorithm: algorithm, Kind: p.Kind, Root: p.Root, Notes: []string{"a given plan"}}
	b := &Built{Candidate: c, Plan: p}
	for i := range p.Lanes {
		b.Lanes = append(b.Lanes, 1+i)
	}
	return &Given{served: &Served{Built: b, Chunks: plan.Chunks{Max: chunkBytes, Min: chunkBytes}}}, nil
}

// Plan returns the plan, nil of no Given.
func (g *Given) Plan() *plan.Plan {
	if g == nil {
		return nil
	}
	return g.served.Plan
}

// serves reports whether calls of a kind and root run the given plan.
func (g *Given) serves(kind plan.Kind, root int) bool {
	p := g.Plan()
	return p != nil && p.Kind == kind && (!kind.HasRoot() || p.Root == root)
}
