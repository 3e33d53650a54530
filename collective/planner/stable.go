package planner

import "github.com/treerun/treerun/collective/plan"

// ordered reports whether a kind must add every element in one fixed order: the ranks of
// a host in order, then the hosts in order (Options.Stable).
func (s *Site) ordered(kind plan.Kind) bool {
	return s.options.Stable && (kind == plan.AllReduce || kind == plan.Reduce || kind == plan.ReduceScatter)
}

// unordered is why trees and rings have no plan where the order is fixed.
func unordered() error {
	return reasonf("adds in the order of its trees, which is another for other parts of a message")
}

// directHosts is direct over several hosts in one fixed order of the ranks: where ranks
// lack links, over trees inside hosts and between them.
func (p *Planner) directHosts(name string, kind plan.Kind, root int) ([]*Candidate, error) {
	if p.Site.graph.Ranks > PairRanks || p.Site.disconnected != nil {
		return p.overHosts(name, "star", "direct", kind, root, true)
	}
	return fixed(name, kind, root, func() (*plan.Plan, error) {
		return plan.DirectHosts(kind, p.Site.hosts.ranks, max(root, 0), plan.Split)
	}), nil
}
