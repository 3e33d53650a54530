package planner

import "github.com/treerun/treerun/collective/plan"

// flat has every rank send all to every other one: the fewest times that a rank waits.
func (p *Planner) flat(kind plan.Kind, _ int) ([]*Candidate, error) {
	n := p.Site.graph.Ranks
	switch {
	case kind != plan.AllReduce && kind != plan.Barrier:
		return nil, reasonf("for allreduce and barrier")
	case p.Site.ordered(kind) && p.Site.hosts != nil && !p.Site.hosts.alone():
		return nil, unordered()
	case n > PairRanks:
		return nil, reasonf("up to %d ranks", PairRanks)
	case p.Site.disconnected != nil:
		return nil, p.Site.disconnected
	}
	return fixed("flat", kind, -1, func() (*plan.Plan, error) {
		return plan.Leaders(kind, plan.Alone(n), plan.Everybody)
	}), nil
}

// fixed makes the one candidate of an algorithm without trees.
func fixed(name string, kind plan.Kind, root int, build func() (*plan.Plan, error)) []*Candidate {
	return []*Candidate{{Algorithm: name, Kind: kind, Root: root, fixed: build}}
}
