package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/tree"
)

// maxRings is the number of directed rings that are used at once, as many as NCCL's channels.
const maxRings = 32

// ring is NCCL's ring algorithm, over directed rings that use links and ports to the full.
func ring(q *query) ([]*Candidate, error) {
	n, each := q.site.graph.Ranks, 1
	if !q.kind.HasRoot() {
		each = n
	}
	most := min(plan.MaxLanes/each, maxRings)
	c := q.candidate()
	switch {
	case q.kind == plan.Barrier:
		return nil, reasonf("a barrier carries no data")
	case n == 1:
		c.Channels = []Channel{{Ring: []int{0}}}
		return q.ofChannels(c, nil)
	case most == 0:
		return nil, reasonf("a ring needs %d lanes, and a plan has at most %d", each, plan.MaxLanes)
	case q.found.noRings != nil:
		return nil, q.found.noRings
	}
	f, err := q.found.get(q.algorithm, n, func() (*TreeSet, error) {
		paths, rates, err := tree.Rings(q.site.full(), maxRings)
		return &TreeSet{Trees: paths, Rates: rates}, err
	})
	if err != nil {
		q.found.noRings = err
		return nil, err
	}
	var weights []float64
	for i, t := range f.Trees[:min(most, len(f.Trees))] {
		order, err := tree.PathOf(t)
		if err != nil {
			return nil, err
		}
		c.Channels, weights = append(c.Channels, Channel{Ring: order}), append(weights, f.weight(i))
	}
	return q.ofChannels(c, weights)
}
