package planner

import (
	"cmp"
	"github.com/treerun/treerun/collective/plan"
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
			f, err = p.forest("multi", n, func() (*Forest, error) { return p.perRoot(p.balanced) })
			if err = cmp.Or(err, f.ofRoots()); err != nil {
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
	f, err := p.largeBetween()
	if err != nil {
		return nil, nil, err
	}
	inside := "star"
	if p.apart != nil {
		inside = "multi"
	}
	l, err := p.locals(inside, "direct")
	if err != nil {
		return nil, nil, err
	}
	strands, weights, err := p.hosts.carry(f, l, -1)
	for i := range strands {
		all = append(all, strands[i].Tree)
	}
	return all, normal(weights), err
}

// largeBetween returns the trees over hosts for large sparse messages: stars, one from
// every host, where other trees gain next to nothing, since a star's leaves are no
// further apart than they must be, and blocks that travel alone meet as late as they can.
func (p *Planner) largeBetween() (*Forest, error) {
	h := p.hosts
	few := len(h.ranks) <= directHosts
	stars := func() (*Forest, error) { return p.betweenTrees("direct", plan.AllReduce, -1, false) }
	switch {
	case p.reaches("packing", plan.AllReduce, false) == nil:
		packed, err := p.betweenTrees("packing", plan.AllReduce, -1, false)
		if err != nil || !few {
			return packed, err
		}
		s, err := stars()
		if err == nil && p.between(s) >= nearRate*p.between(packed) {
			return s, nil
		}
		return packed, err
	case few:
		return stars()
	}
	return p.betweenTrees("double-binary", plan.AllReduce, -1, false)
}

// between is the rate that trees over hosts reach together, up and down, as far as links
// and cards between the hosts go, in GB/s; 0 where they take a link that is not there.
func (p *Planner) between(f *Forest) float64 {
	strands := make([]Strand, len(f.Trees))
	weights := make([]float64, len(f.Trees))
	for i, t := range f.Trees {
		if t.Missing(p.hosts.between) > 0 {
			return 0
		}
		strands[i].Tree, weights[i] = t, f.weight(i)
	}
	newMeter(p.hosts.between, topo.NewWays(p.hosts.between)).fit(strands, weights, plan.AllReduce, -1)
	return (&Candidate{Strands: strands}).Rate()
}

func normal(weights []float64) []float64 {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	for i := range weights {
		weights[i] /= total
	}
	return weights
}
