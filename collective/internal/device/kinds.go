package device

import (
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/transport"
)

// Kinds are the collectives that run on devices. Their plans are all made
// when the first of them is called, so that rank 0 decides on all of them.
var Kinds = []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.Barrier, plan.AllGather,
	plan.ReduceScatter, plan.AllToAll, plan.Gather, plan.Scatter}

// lanesOf returns the link that stands for each of a plan. Lane i of a plan travels on lane i; but where every rank
// sends every other one a part of its own, on one link, the part for rank d is on lane d, as in a direct ReduceScatter:
// so these kinds need hardly any slots in addition to those of other kinds.
func lanesOf(p *plan.Plan) func(k plan.Link) transport.Link {
	pairs := map[[2]int]bool{}
	links := p.Links()
	for _, k := range links {
		pairs[[2]int{k.Src, k.Dst}] = true
	}
	byPart := p.Kind == plan.AllToAll || p.Kind == plan.Gather || p.Kind == plan.Scatter
	return func(k plan.Link) transport.Link {
		if byPart && len(pairs) == len(links) { // a given plan may have more
			k.Lane = k.Dst
		}
		return transport.Link(k)
	}
}

// plansOf returns the plans of all choices, in the same order on all ranks, and lets
// each know where it stands.
func plansOf(p *setup.Plans, rank int) ([]*plan.Plan, error) {
	var all []*plan.Plan
	for _, kind := range Kinds {
		if p.Planner.Runs(kind) != nil {
			continue // calls return that error
		}
		list, err := p.Planner.AllPlans(kind)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if rank == 0 {
				if err := p.Planner.Verify(s); err != nil {
					return nil, err
				}
			}
			s.Attached = len(all)
			all = append(all, s.Plan)
		}
	}
	return all, nil
}
