package planner

import "github.com/treerun/treerun/collective/plan"

// direct sends every slice of the message straight to the rank that owns it, and from there to those that need it. On
// one track a rank does one thing after the other; on two it sends and receives side by side.
func direct(q *query) ([]*Candidate, error) {
	s, n, root := q.site, q.site.graph.Ranks, max(q.root, 0)
	owned := q.kind != plan.Barrier && !pairwise(q.kind)
	switch {
	case q.kind == plan.Barrier:
		return nil, reasonf("a barrier has no slices: see flat")
	case n > PairRanks:
		return nil, reasonf("up to %d ranks, not for %d", PairRanks, n)
	case q.ordered() && s.hosts != nil || owned && s.hosts.alone():
		return nil, reasonf("ranks are on several hosts: see hierarchical")
	case q.ordered() && s.disconnected != nil:
		return ofRoots(stars)(q) // through ranks that pass on values without adding to them
	case owned && s.disconnected != nil:
		return nil, s.disconnected
	}
	var list []*Candidate
	for _, form := range []plan.Form{plan.Single, plan.Split} {
		if form == plan.Split && q.kind != plan.AllReduce && q.kind != plan.Reduce && q.kind != plan.AllToAll {
			continue
		}
		c := q.fixed(func() (*plan.Plan, error) {
			if q.ordered() {
				return plan.DirectHosts(q.kind, s.graph.ByHost(), root, form)
			}
			return plan.Direct(q.kind, n, root, form)
		})
		c[0].Variant = []string{plan.Single: variantSingle, plan.Split: variantSplit}[form]
		list = append(list, c...)
	}
	return list, nil
}
