package planner

import "github.com/treerun/treerun/collective/plan"

// inOrder are the algorithms that can add in one order; the others add in that of trees.
var inOrder = []string{"flat", "star", "direct", "hierarchical", "chain"}

// ordered reports whether a kind must add every element in one fixed order: the ranks of
// a host in order, then the hosts in order (Options.Stable).
func (s *Site) ordered(kind plan.Kind) bool {
	return s.options.Stable && (kind == plan.AllReduce || kind == plan.Reduce || kind == plan.ReduceScatter)
}

// unordered is why trees and rings have no plan where the order is fixed.
func unordered() error {
	return reasonf("adds in the order of its trees, which is another for other parts of a message")
}

// directInOrder is direct over several hosts in one fixed order of the ranks: where ranks
// lack links, over trees inside hosts and between them.
func (x *pair) directInOrder() ([]*Candidate, error) {
	q, s := &x.q, x.q.site
	if s.graph.Ranks > PairRanks || s.disconnected != nil {
		return x.overHosts()
	}
	return q.fixed(func() (*plan.Plan, error) {
		return plan.DirectHosts(q.kind, x.hosts.ranks, max(q.root, 0), plan.Split)
	}), nil
}
