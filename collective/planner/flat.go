package planner

import "github.com/treerun/treerun/collective/plan"

// flat has everybody send all to everybody: the fewest times that a rank waits.
func (p *Planner) flat(kind plan.Kind, _ int) ([]*Candidate, error) {
	n := p.graph.Ranks
	switch {
	case kind != plan.AllReduce && kind != plan.Barrier:
		return nil, because("for allreduce and barrier")
	case p.ordered(kind) && p.hosts != nil && !p.hosts.alone():
		return nil, unordered()
	case n > PairRanks:
		return nil, because("up to %d ranks", PairRanks)
	case p.apart != nil:
		return nil, p.apart
	}
	return fixed("flat", kind, -1, onPairs, func() (*plan.Plan, error) {
		return plan.Leaders(kind, plan.Alone(n), plan.Everybody)
	}), nil
}

// fixed makes the one candidate of an algorithm without trees.
func fixed(name string, kind plan.Kind, root int, lane func(i int) int, build func() (*plan.Plan, error)) []*Candidate {
	return []*Candidate{{Algorithm: name, Kind: kind, Root: root, laneOf: lane, fixed: build}}
}

// Lane 0 joins all pairs of ranks: for plans of one lane, and those of which no two
// lanes join the same ranks the same way.
func onPairs(int) int { return 0 }

// Every lane of a plan travels on a lane of its own.
func onOwn(i int) int { return 1 + i }

// pairsOr is lane 0 where it joins all pairs of ranks, and lane elsewhere.
func (p *Planner) pairsOr(lane func(i int) int) func(i int) int {
	if p.HasPairs() {
		return onPairs
	}
	return lane
}
