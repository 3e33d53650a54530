package device

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/transport"
)

// lanesOf returns the link that stands for each of a plan. Lane i of a plan travels on lane i; but where every rank
// sends every other one a part of its own, on one link, the part for rank d is on lane d, as in a direct ReduceScatter:
// so these kinds need hardly any slots in addition to those of other kinds.
func lanesOf(p *plan.Plan) func(k plan.Link) transport.Link {
	pairs := map[[2]int]bool{}
	links := p.Links()
	for _, k := range links {
		pairs[[2]int{k.Src, k.Dst}] = true
	}
	byPart := p.Kind == plan.AllToAll || p.Kind == plan.Gather || p.Kind == plan.Scatter
	return func(k plan.Link) transport.Link {
		if byPart && len(pairs) == len(links) { // a given plan may have more
			k.Lane = k.Dst
		}
		return transport.Link(k)
	}
}
