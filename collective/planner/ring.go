package planner

import (
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/tree"
)

// maxRings is the number of rings that are used at once, as many as NCCL uses.
const maxRings = 16

// ring is NCCL's ring algorithm, over every ring that the links allow, both ways round.
func ring(q *query) ([]*Candidate, error) {
	n, each := q.site.graph.Ranks, 1
	if !q.kind.HasRoot() {
		each = n
	}
	most := plan.MaxLanes / each / 2
	c := q.candidate()
	switch {
	case q.kind == plan.Barrier:
		return nil, reasonf("a barrier carries no data")
	case n == 1:
		c.Channels = []Channel{{Ring: []int{0}}}
		return q.ofChannels(c, nil)
	case most == 0:
		return nil, reasonf("a ring both ways round needs %d lanes, and a plan has at most %d", 2*each,
			plan.MaxLanes)
	case q.found.noRings != nil:
		return nil, q.found.noRings
	}
	f, err := q.found.get(q.algorithm, n, func() (*TreeSet, error) {
		paths, rates, err := tree.Rings(q.site.graph, maxRings)
		return &TreeSet{Trees: paths, Rates: rates}, err
	})
	if err != nil {
		q.found.noRings = err
		return nil, err
	}
	var weights []float64
	for i, t := range f.Trees[:min(most, len(f.Trees))] {
		there, err := tree.PathOf(t)
		if err != nil {
			return nil, err
		}
		back := slices.Clone(there)
		slices.Reverse(back[1:]) // both begin at the same rank
		c.Channels = append(c.Channels, Channel{Ring: there}, Channel{Ring: back, Mirrored: true})
		weights = append(weights, f.weight(i), f.weight(i))
	}
	return q.ofChannels(c, weights)
}
