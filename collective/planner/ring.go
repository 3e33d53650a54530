package planner

import (
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/tree"
)

// maxRings is the number of rings that are used at once, as many as NCCL uses; fewRings
// where rings were not asked for.
const maxRings, fewRings = 16, 2

// ring is NCCL's ring algorithm, over every ring that the links allow, both ways round.
func (p *Planner) ring(kind plan.Kind, root int) ([]*Candidate, error) {
	if err := p.searched("ring", kind, searchedRanks); err != nil {
		return nil, err
	}
	n := p.graph.Ranks
	if kind == plan.Barrier {
		return nil, because("a barrier carries no data")
	}
	c := Candidate{Algorithm: "ring", Kind: kind, Root: root}
	if n == 1 {
		c.Strands = []Strand{{Ring: []int{0}}}
		return p.stranded(c, nil)
	}
	each := n
	if kind.HasRoot() {
		each = 1
	}
	most := min(maxRings, plan.MaxLanes/each/2)
	if !p.asked("ring") {
		most = min(most, fewRings)
	}
	if most == 0 {
		return nil, because("a ring both ways round needs %d lanes, and a plan has at most %d", 2*each, plan.MaxLanes)
	}
	if p.rings == nil {
		if p.rings, p.noRings = tree.Rings(p.graph, maxRings); p.noRings != nil {
			p.rings = []tree.Ring{}
		}
	}
	if p.noRings != nil {
		return nil, p.noRings
	}
	var weights []float64
	for _, f := range p.rings[:min(most, len(p.rings))] {
		back := slices.Clone(f.Order)
		slices.Reverse(back[1:]) // both begin at the same rank
		c.Strands = append(c.Strands, Strand{Ring: f.Order}, Strand{Ring: back, Mirrored: true})
		weights = append(weights, f.GBytesPerSecond, f.GBytesPerSecond)
	}
	return p.stranded(c, weights)
}
