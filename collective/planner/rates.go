package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// measure sets what the channels of a candidate do: rates in the proportion of their weights, as
// large as the links and ports let them be together, and latencies.
func (p *Planner) measure(c *Candidate) error {
	if p.graph.Ranks == 1 {
		return nil // it sends nothing
	}
	for i := 1; i < len(c.Channels) && c.shifts; i++ {
		c.Channels[i].Tree = tree.Uniform(p.graph.Ranks, i)
	}
	together, err := p.rateOf(c, c.weights)
	if err != nil {
		return err
	}
	for i := range c.Channels {
		s := &c.Channels[i]
		s.Rate = c.weights[i] * together
		s.LatencyUs = p.latencyOf(s, c.Kind, c.Root)
		if len(c.Channels) == 1 || c.Kind.HasParts() { // none is ever alone
			continue
		}
		if i > 0 && p.uniform { // all links are alike, and each channel takes one at most once each way
			s.Alone = c.Channels[0].Alone
			continue
		}
		alone := make([]float64, len(c.weights))
		alone[i] = 1
		if s.Alone, err = p.rateOf(c, alone); err != nil {
			return err
		}
	}
	return nil
}

// rateOf returns the rate of a candidate whose channels have such shares.
func (p *Planner) rateOf(c *Candidate, shares []float64) (float64, error) {
	b := &Served{Candidate: c, Shares: shares}
	if err := b.make(); err != nil {
		return 0, err
	}
	return p.pricer.FullRate(b.Plan)
}

// latencyOf is the latency of a collective over a channel.
func (p *Planner) latencyOf(s *Channel, kind plan.Kind, root int) (us float64) {
	if s.Ring != nil {
		n := len(s.Ring)
		for i, v := range s.Ring {
			next := s.Ring[(i+1)%n]
			switch hop := p.latency(v, next); {
			case kind == plan.Reduce && v == root, kind == plan.Broadcast && next == root: // the ends of the chain
			case kind.HasRoot():
				us += hop
			default:
				us += hop * float64(n-1) / float64(n) // every lane leaves out one hop
			}
		}
	} else {
		depth, diameter := p.treeLatencies(s.Tree)
		us = depth
		if kind.HasParts() && !s.OfPart {
			us = diameter
		}
	}
	if kind == plan.AllReduce {
		us *= 2
	}
	return us
}

// latency is that of the way between two ranks in microseconds.
func (p *Planner) latency(from, to int) (us float64) {
	if p.uniform {
		return p.graph.Links[0].LatencyUs
	}
	for _, hop := range p.ways.Route(from, to) {
		us += p.graph.Links[hop.Link].LatencyUs
	}
	return us
}

// treeLatencies returns the latency between the root and the farthest rank, and between
// the two farthest ranks.
func (p *Planner) treeLatencies(t topo.Tree) (depth, diameter float64) {
	children := t.Children()
	var deep func(v int) float64
	deep = func(v int) float64 {
		first := 0.0
		for _, c := range children[v] {
			d := deep(c) + p.latency(v, c)
			diameter = max(diameter, first+d)
			first = max(first, d)
		}
		return first
	}
	return deep(t.Root), diameter
}
