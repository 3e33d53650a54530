package planner

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
	"github.com/treerun/treerun/topo/tree"
)

// measure sets the rates and latencies of a candidate's channels: rates in the proportion of their weights, as large as
// the links and ports allow for all together.
func (x *Prices) measure(c *Candidate) error {
	if x.site.graph.Ranks == 1 {
		return nil // it sends nothing
	}
	for i := 1; i < len(c.Channels) && c.shifts; i++ {
		c.Channels[i].Tree = tree.Uniform(x.site.graph.Ranks, i)
	}
	together, err := x.rateOf(c, c.weights)
	if err != nil {
		return err
	}
	for i := range c.Channels {
		s := &c.Channels[i]
		s.Rate = c.weights[i] * together
		s.LatencyUs = x.site.latencyOf(s, c.Kind, c.Root)
		if len(c.Channels) == 1 || c.Kind.HasParts() { // none is ever alone
			continue
		}
		if i > 0 && x.site.uniform { // all links are equal, and each channel takes one at most once each way
			s.Alone = c.Channels[0].Alone
			continue
		}
		alone := make([]float64, len(c.weights))
		alone[i] = 1
		if s.Alone, err = x.rateOf(c, alone); err != nil {
			return err
		}
	}
	return nil
}

// rateOf returns the rate of a candidate whose channels have such shares.
func (x *Prices) rateOf(c *Candidate, shares []float64) (float64, error) {
	made, err := c.planOf(shares)
	if err != nil {
		return 0, err
	}
	return x.pricer().FullRate(made)
}

// latencyOf is the latency of a collective over a channel.
func (s *Site) latencyOf(c *Channel, kind plan.Kind, root int) (us float64) {
	if c.Ring != nil {
		n := len(c.Ring)
		for i, v := range c.Ring {
			next := c.Ring[(i+1)%n]
			switch hop := s.latency(v, next); {
			case kind == plan.Reduce && v == root, kind == plan.Broadcast && next == root: // the ends of the chain
			case kind.HasRoot():
				us += hop
			default:
				us += hop * float64(n-1) / float64(n) // every lane leaves out one hop
			}
		}
	} else {
		depth, diameter := s.treeLatencies(c.Tree)
		us = depth
		if kind.HasParts() && !c.OfPart {
			us = diameter
		}
	}
	if kind == plan.AllReduce {
		us *= 2
	}
	return us
}

// latency is that of the way between two ranks in microseconds.
func (s *Site) latency(from, to int) (us float64) {
	if s.uniform {
		return s.full().Links[0].LatencyUs
	}
	for _, hop := range s.ways().Route(from, to) {
		us += s.graph.Links[hop.Link].LatencyUs
	}
	return us
}

// treeLatencies returns the latency between the root and the farthest rank, and between
// the two farthest ranks.
func (s *Site) treeLatencies(t topo.Tree) (depth, diameter float64) {
	children := t.Children()
	var deep func(v int) float64
	deep = func(v int) float64 {
		first := 0.0
		for _, c := range children[v] {
			d := deep(c) + s.latency(v, c)
			diameter = max(diameter, first+d)
			first = max(first, d)
		}
		return first
	}
	return deep(t.Root), diameter
}

// Certificate is a rate that no plan for a collective exceeds on a graph, and why.
type Certificate struct {
	Rate      float64 // GB/s of message; 0: not known
	Partition [][]int // nil: no single partition is the limit
	Words     string  // describes the limit
	LeftOut   string  // describes what is not in Rate; "" is nothing
}

// Ratio returns a rate as a part of the bound, rounded down to a tenth of a percent.
func (c *Certificate) Ratio(rate float64) float64 {
	return math.Floor(1000*rate/c.Rate+1e-6) / 1000
}

// Certify finds the bound of a collective and root on the graph.
func (s *Site) Certify(kind plan.Kind, root int) (Certificate, error) {
	g, most := s.full(), pack.MaxRanks
	if kind.HasParts() {
		most = pack.MaxPartRanks
	}
	switch {
	case g.Ranks == 1:
		return Certificate{Words: "none: one rank sends nothing"}, nil
	case pairwise(kind) || kind.Scans() || kind == plan.Barrier:
		return Certificate{Words: fmt.Sprintf("not known for %v", kind)}, nil
	case g.Ranks > most:
		return Certificate{Words: fmt.Sprintf("not known for %v above %d ranks", kind, most)}, nil
	}
	b, err := pack.FindBound(g, packRoot(kind, root))
	if err == nil {
		err = b.Check(g)
	}
	if err != nil {
		return Certificate{}, fmt.Errorf("bound of %v on %d ranks: %w", kind, g.Ranks, err)
	}
	return Certificate{b.Rate, b.Partition, b.String(), b.LeftOut()}, nil
}

// LimitBetweenHosts is the most, in GB/s of message, that any plan of a kind could reach
// on the network between the hosts; 0 where there is none, or none is known.
func (s *Site) LimitBetweenHosts(kind plan.Kind, root int) float64 {
	h := s.hosts
	if h == nil || len(h.ranks) > packedHosts || kind.HasParts() && !h.alike() ||
		pairwise(kind) || kind.Scans() || kind == plan.Barrier {
		return 0
	}
	bound, err := pack.FindBound(h.between, packRoot(kind, h.host[max(root, 0)]))
	if err != nil {
		return 0
	}
	return bound.Rate
}

// FullRate is the rate in GB/s of message that a plan reaches with its shares, as far as links and ports go; 0 for one
// that sends no data.
func (x *Prices) FullRate(s *ChosenPlan) float64 {
	if s.Plan.Kind == plan.Barrier || x.site.graph.Ranks == 1 {
		return 0
	}
	rate, err := x.pricer().FullRate(s.Plan)
	if err != nil { // there is none for ranks that cannot reach each other
		return 0
	}
	return rate
}
