package planner

import "github.com/treerun/treerun/collective/plan"

// doubling exchanges sums at the distances 1, 2, 4, ...: recursive doubling.
func doubling(q *query) ([]*Candidate, error) {
	s := q.site
	switch {
	case q.kind.Scans():
		return q.scan(plan.InRounds)
	case q.kind != plan.AllReduce && q.kind != plan.Barrier:
		return nil, reasonf("for allreduce, barrier and scans")
	case s.hosts.alone():
		return nil, reasonf("every host has one rank: see hierarchical")
	case s.disconnected != nil:
		return nil, s.disconnected
	}
	return q.fixed(func() (*plan.Plan, error) {
		return plan.Leaders(q.kind, plan.Alone(s.graph.Ranks), plan.Doubling)
	}), nil
}
