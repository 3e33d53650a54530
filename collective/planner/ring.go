package planner

import (
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/tree"
)

// maxRings is the number of rings that are used at once, as many as NCCL uses.
const maxRings = 16

// ring is NCCL's ring algorithm, over every ring that the links allow, both ways round.
func (p *Planner) ring(kind plan.Kind, root int) ([]*Candidate, error) {
	n := p.Site.graph.Ranks
	if kind == plan.Barrier {
		return nil, reasonf("a barrier carries no data")
	}
	c := Candidate{Algorithm: "ring", Kind: kind, Root: root}
	if n == 1 {
		c.Channels = []Channel{{Ring: []int{0}}}
		return p.ofChannels(c, nil)
	}
	each := n
	if kind.HasRoot() {
		each = 1
	}
	most := plan.MaxLanes / each / 2
	if most == 0 {
		return nil, reasonf("a ring both ways round needs %d lanes, and a plan has at most %d", 2*each,
			plan.MaxLanes)
	}
	if p.noRings != nil {
		return nil, p.noRings
	}
	f, err := p.treeSet("ring", n, func() (*TreeSet, error) {
		paths, rates, err := tree.Rings(p.Site.graph, maxRings)
		return &TreeSet{Trees: paths, Rates: rates}, err
	})
	if err != nil {
		p.noRings = err
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
	return p.ofChannels(c, weights)
}
