package planner

import "github.com/treerun/treerun/collective/plan"

// flat has every rank send all to every other one that needs it: the fewest times that a rank waits.
func flat(q *query) ([]*Candidate, error) {
	s, n := q.site, q.site.graph.Ranks
	switch {
	case q.kind.Scans():
		return q.scan(plan.AtOnce)
	case q.kind != plan.AllReduce && q.kind != plan.Barrier:
		return nil, reasonf("for allreduce, barrier and scans")
	case q.ordered() && s.hosts != nil && !s.hosts.alone():
		return nil, unordered()
	case n > PairRanks:
		return nil, reasonf("up to %d ranks", PairRanks)
	case s.disconnected != nil:
		return nil, s.disconnected
	}
	return q.fixed(func() (*plan.Plan, error) { return plan.Leaders(q.kind, plan.Alone(n), plan.Everybody) }), nil
}
