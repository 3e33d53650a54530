package planner

import (
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// LargeTrees returns the trees over all ranks on which large sparse messages travel, with
// their shares, which add up to 1: those of the largest AllReduce, or where that runs without
// trees one from every rank, of at most 16. A star's leaves are no further apart than they
// must be, and blocks that travel alone meet as late as they can.
func (p *Planner) LargeTrees() (trees []topo.Tree, shares []float64, err error) {
	n := p.graph.Ranks
	if n == 1 {
		return nil, nil, nil
	}
	s, err := p.Serve(plan.AllReduce, -1, maxPriced)
	if err != nil {
		return nil, nil, err
	}
	for i := range s.Channels {
		if c := &s.Channels[i]; c.Ring == nil && s.Shares[i] > 0 {
			trees, shares = append(trees, c.Tree), append(shares, s.Shares[i])
		}
	}
	if len(trees) > 0 {
		return trees, normal(shares, len(trees)), nil
	}
	var f *Forest
	if n > directRanks || p.apart != nil {
		if f, err = p.perRoot("multi"); err != nil {
			return nil, nil, err
		}
	}
	count := min(n, directRanks)
	for i := range count {
		t := topo.Star(n, i*n/count)
		if f != nil {
			t = f.Trees[i*n/count]
		}
		trees, shares = append(trees, t), append(shares, 1)
	}
	return trees, normal(shares, len(trees)), nil
}

// normal returns n weights with sum 1; nil ones are equal.
func normal(weights []float64, n int) []float64 {
	if weights == nil {
		return slices.Repeat([]float64{1 / float64(n)}, n)
	}
	total, shares := numbers.Sum(weights), make([]float64, n)
	for i, w := range weights {
		shares[i] = w / total
	}
	return shares
}
