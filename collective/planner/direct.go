package planner

import "github.com/treerun/treerun/collective/plan"

// direct sends every slice of the message straight to the rank that owns it, and from there to those that need it. On
// one track a rank does one thing after the other; on two it sends and receives side by side.
func (p *Planner) direct(kind plan.Kind, root int) ([]*Candidate, error) {
	n := p.Site.graph.Ranks
	owned := kind != plan.Barrier && !pairwise(kind)
	switch {
	case kind == plan.Barrier:
		return nil, reasonf("a barrier has no slices: see flat")
	case n > PairRanks:
		return nil, reasonf("up to %d ranks, not for %d", PairRanks, n)
	case p.Site.ordered(kind) && p.Site.hosts != nil || owned && p.Site.hosts.alone():
		return nil, reasonf("ranks are on several hosts: see hierarchical")
	case p.Site.ordered(kind) && p.Site.disconnected != nil:
		return p.ofRoots("direct", kind, root) // through ranks that pass on values without adding to them
	case owned && p.Site.disconnected != nil:
		return nil, p.Site.disconnected
	}
	var list []*Candidate
	for _, form := range []plan.Form{plan.Single, plan.Split} {
		if form == plan.Split && kind != plan.AllReduce && kind != plan.Reduce && kind != plan.AllToAll {
			continue
		}
		c := fixed("direct", kind, root, func() (*plan.Plan, error) {
			if p.Site.ordered(kind) {
				return plan.DirectHosts(kind, p.Site.graph.ByHost(), max(root, 0), form)
			}
			return plan.Direct(kind, n, max(root, 0), form)
		})
		c[0].Variant = []string{plan.Single: variantSingle, plan.Split: variantSplit}[form]
		list = append(list, c...)
	}
	return list, nil
}
