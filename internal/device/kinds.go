package device

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/comm/setup"
	"github.com/treerun/treerun/transport"
)

// Kinds are the collectives that run on devices. Their plans are all made
// when the first of them is called, so that rank 0 decides on all of them.
var Kinds = []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.Barrier, plan.AllGather,
	plan.ReduceScatter, plan.AllToAll, plan.Gather, plan.Scatter}

// linkOf returns the link that stands for k of a plan of a kind. Lane i of a plan travels on lane i; but where a
// rank sends every other one a part of its own, as in the last three kinds, what goes to rank d is on lane d, as
// in a direct ReduceScatter: so they need hardly any slots that are not there for others.
func linkOf(kind plan.Kind, k plan.Link) transport.Link {
	if kind == plan.AllToAll || kind == plan.Gather || kind == plan.Scatter {
		k.Lane = k.Dst
	}
	return transport.Link(k)
}

// plansOf returns the plans of all choices, in the same order on all ranks, and lets
// each know where it stands.
func plansOf(p *setup.Plans, rank int) ([]*plan.Plan, error) {
	var all []*plan.Plan
	for _, kind := range Kinds {
		if p.Runs(kind) != nil {
			continue // calls say so
		}
		list, err := p.AllServed(kind)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if rank == 0 {
				if err := p.Verify(s); err != nil {
					return nil, err
				}
			}
			s.Attached = len(all)
			all = append(all, s.Plan)
		}
	}
	return all, nil
}
