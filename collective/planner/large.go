package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// nearRate is the part of the packed trees' rate from which stars do as well: rates are
// measured no better.
const nearRate = 0.95

// LargeTrees returns the trees over all ranks on which large sparse messages travel, with
// their shares: one from every rank or host where all links are alike, else those that
// the links' rates give.
func (p *Planner) LargeTrees() ([]topo.Tree, []float64, error) {
	n := p.graph.Ranks
	if n == 1 {
		return nil, nil, nil
	}
	var all []topo.Tree
	var weights []float64
	if p.hosts == nil {
		var f *Forest
		if n > directRanks || !p.uniform {
			var err error
			if f, err = p.perRoot(p.quickSearch()); err != nil {
				return nil, nil, err
			}
		}
		count := min(n, directRanks)
		for i := range count {
			t := topo.Star(n, i*n/count)
			if f != nil {
				t = f.Trees[i*n/count]
			}
			all, weights = append(all, t), append(weights, 1)
		}
		return all, normal(weights), nil
	}
	c, err := p.largeBetween()
	if err != nil {
		return nil, nil, err
	}
	for i := range c.Channels {
		all, weights = append(all, c.Channels[i].Tree), append(weights, c.Channels[i].Rate)
	}
	return all, normal(weights), nil
}

// largeBetween returns the trees over several hosts for large sparse messages: stars, one
// from every host, where other trees gain next to nothing, since a star's leaves are no
// further apart than they must be, and blocks that travel alone meet as late as they can.
func (p *Planner) largeBetween() (*Candidate, error) {
	inside := "star"
	if p.apart != nil {
		inside = p.quickSearch()
	}
	var best *Candidate
	var without error
	for _, between := range []string{"direct", "packing", "double-binary"} {
		if best != nil && between == "double-binary" {
			break
		}
		list, err := p.overHosts(between, inside, between, plan.AllReduce, -1, false)
		if without = err; err != nil {
			continue
		}
		if c := list[len(list)-1]; best == nil || best.Rate() < nearRate*c.Rate() {
			best = c
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, without
}

// quickSearch is the search for a tree of every root that does not take long.
func (p *Planner) quickSearch() string {
	if p.uniform || p.graph.Ranks <= jointRanks {
		return "multi"
	}
	return "kl"
}

func normal(weights []float64) []float64 {
	total := numbers.Sum(weights)
	for i := range weights {
		weights[i] /= total
	}
	return weights
}
