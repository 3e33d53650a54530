package planner

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
)

// Given is a plan that was read from a file. It serves the calls of its kind and root.
type Given struct {
	plan   *plan.Plan
	served *Served
	used   bool // by a call
}

// Again returns the same plan for another Planner, unused.
func (g *Given) Again() *Given {
	served := *g.served
	served.Attached = nil
	return &Given{plan: g.plan, served: &served}
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
	return &Given{plan: p, served: &Served{Built: b, Chunks: plan.Chunks{Max: chunkBytes, Min: chunkBytes}}}, nil
}

// Plan returns the plan.
func (g *Given) Plan() *plan.Plan { return g.plan }

// serves reports whether calls of a kind and root run the given plan.
func (g *Given) serves(kind plan.Kind, root int) bool {
	return g.plan.Kind == kind && (!kind.HasRoot() || g.plan.Root == root)
}

func (g *Given) fits(ranks int) error {
	if g.plan.Size != ranks {
		return fmt.Errorf("the given plan is for %d ranks, the graph has %d", g.plan.Size, ranks)
	}
	return nil
}
