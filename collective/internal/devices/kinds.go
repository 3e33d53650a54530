package devices

import (
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/collective/plan"
)

// Kinds are the collectives that run on devices. Their plans are all made
// when the first of them is called, so that rank 0 decides on all of them.
var Kinds = []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.Barrier, plan.AllGather,
	plan.ReduceScatter, plan.AllToAll, plan.Gather, plan.Scatter}

// plansOf returns the plans of all choices, in the same order on all ranks, and lets
// each know where it stands.
func plansOf(p *setup.Plans, rank int) ([]*plan.Plan, error) {
	var all []*plan.Plan
	for _, kind := range Kinds {
		if p.Planner.Site.Runs(kind) != nil {
			continue // calls return that error
		}
		list, err := p.Planner.AllPlans(kind)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if rank == 0 {
				if err := p.Planner.Site.Verify(s); err != nil {
					return nil, err
				}
			}
			s.Attached = len(all)
			all = append(all, s.Plan)
		}
	}
	return all, nil
}
