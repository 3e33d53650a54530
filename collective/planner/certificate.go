package planner

import (
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// Certificate is a rate that no plan for a collective exceeds on a graph, and why.
type Certificate struct {
	Rate      float64 // GB/s of message; 0: not known
	Partition [][]int // nil: no single partition is the limit
	Words     string  // what the limit is
}

// Ratio is what part of the bound a rate is, rounded down to a tenth of a percent.
func (c *Certificate) Ratio(rate float64) float64 {
	return math.Floor(1000*rate/c.Rate+1e-6) / 1000
}

// Certify finds the bound of a collective and root on the graph. A served plan whose
// trees were packed has it already; nil otherwise.
func (p *Planner) Certify(kind plan.Kind, root int, s *Served) (Certificate, error) {
	g := p.graph
	var b pack.Bound
	var err error
	switch {
	case g.Ranks == 1:
		return Certificate{Words: "none: one rank sends nothing"}, nil
	case pairwise(kind) || kind == plan.Barrier:
		return Certificate{Words: fmt.Sprintf("not known for %v", kind)}, nil
	case kind.HasParts() && g.Ranks > pack.MaxPartRanks:
		return cutsBound(g), nil
	case g.Ranks > pack.MaxRanks:
		return Certificate{Words: fmt.Sprintf("not known above %d ranks", pack.MaxRanks)}, nil
	case s != nil && s.proved != nil:
		b = *s.proved
	default:
		b, err = boundOf(g, kind, root)
	}
	if err == nil {
		err = b.Check(g)
	}
	if err != nil {
		return Certificate{}, fmt.Errorf("bound of %v on %d ranks: %w", kind, g.Ranks, err)
	}
	return Certificate{b.Rate, b.Partition, b.String()}, nil
}

// LimitBetweenHosts is the most, in GB/s of message, that any plan of a kind could reach
// on the network between the hosts; 0 where there is none, or none is known.
func (p *Planner) LimitBetweenHosts(kind plan.Kind, root int) float64 {
	h := p.hosts
	if h == nil || len(h.ranks) > packedHosts || kind.HasParts() && !h.alike() ||
		pairwise(kind) || kind == plan.Barrier {
		return 0
	}
	bound, err := boundOf(h.between, kind, h.host[max(root, 0)])
	if err != nil {
		return 0
	}
	return bound.Rate
}

// boundOf is the bound of a collective with data that trees carry.
func boundOf(g *topo.Graph, kind plan.Kind, root int) (pack.Bound, error) {
	switch {
	case kind.HasParts():
		return pack.PartsBound(g)
	case kind.HasRoot():
		return pack.BroadcastBound(g, max(root, 0))
	}
	return pack.TreeBound(g)
}

// Fullest is the rate in GB/s that a plan reaches with its trees and rings, as far as
// links and ports go; 0 for one without.
func (p *Planner) Fullest(s *Served) float64 {
	if len(s.Strands) == 0 || p.graph.Ranks == 1 {
		return 0
	}
	rate, err := p.pricer.FullRate(s.Plan)
	if err != nil { // there is none for ranks that cannot reach each other
		return 0
	}
	return rate
}

// cutsBound is a bound of an AllGather or a ReduceScatter for more ranks than
// pack.PartsBound takes: what k of n ranks give, k/n of the message, has to leave them
// over the links of the cut around them, and around one that a port makes over the
// port. It looks at the cuts around one rank, one host or the ranks of one port.
func cutsBound(g *topo.Graph) Certificate {
	best := Certificate{Rate: math.Inf(1)}
	for _, ranks := range suspects(g) {
		parts := [][]int{slices.Sorted(slices.Values(ranks)), nil}
		for v := range g.Ranks {
			if !slices.Contains(ranks, v) {
				parts[1] = append(parts[1], v)
			}
		}
		if rate := cutRate(g, parts); rate < best.Rate*(1-1e-12) {
			slices.SortFunc(parts, slices.Compare) // that of rank 0 first
			best.Rate, best.Partition = rate, parts
		}
	}
	best.Words = fmt.Sprintf("what can pass at the same time between {%s} and {%s} is the limit",
		topo.RankList(best.Partition[0]), topo.RankList(best.Partition[1]))
	return best
}

// suspects are the cuts that cutsBound looks at.
func suspects(g *topo.Graph) [][]int {
	var list [][]int
	for v := range g.Ranks {
		list = append(list, []int{v})
	}
	if hosts := plan.Hosts(g); len(hosts) > 1 {
		list = append(list, hosts...)
	}
	for _, p := range g.Ports {
		if len(p.Ranks) < g.Ranks {
			list = append(list, p.Ranks)
		}
	}
	return list
}

// cutRate is the bound that the cut between two parts gives.
func cutRate(g *topo.Graph, parts [][]int) float64 {
	in, capacity := make([]bool, g.Ranks), 0.0
	for _, v := range parts[0] {
		in[v] = true
	}
	for _, l := range g.Links {
		if in[l.A] != in[l.B] {
			capacity += l.GBytesPerSecond
		}
	}
	for _, p := range g.Ports { // of one of the parts
		if slices.Equal(p.Ranks, parts[0]) || slices.Equal(p.Ranks, parts[1]) {
			capacity = min(capacity, p.GBytesPerSecond)
		}
	}
	return capacity * float64(g.Ranks) / float64(max(len(parts[0]), len(parts[1])))
}
