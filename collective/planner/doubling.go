package planner

import "github.com/treerun/treerun/collective/plan"

// doubling exchanges sums at the distances 1, 2, 4, ...: recursive doubling.
func (p *Planner) doubling(kind plan.Kind, _ int) ([]*Candidate, error) {
	n := p.Site.graph.Ranks
	switch {
	case kind != plan.AllReduce && kind != plan.Barrier:
		return nil, reasonf("for allreduce and barrier")
	case p.Site.hosts.alone():
		return nil, reasonf("every host has one rank: see hierarchical")
	case p.Site.disconnected != nil:
		return nil, p.Site.disconnected
	}
	return fixed("doubling", kind, -1, func() (*plan.Plan, error) {
		return plan.Leaders(kind, plan.Alone(n), plan.Doubling)
	}), nil
}
