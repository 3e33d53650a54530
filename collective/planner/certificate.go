package planner

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/collective/plan"
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

// Certify finds the bound of a collective and root on the graph.
func (p *Planner) Certify(kind plan.Kind, root int) (Certificate, error) {
	g, most := p.graph, pack.MaxRanks
	if kind.HasParts() {
		most = pack.MaxPartRanks
	}
	switch {
	case g.Ranks == 1:
		return Certificate{Words: "none: one rank sends nothing"}, nil
	case pairwise(kind) || kind == plan.Barrier:
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
	bound, err := pack.FindBound(h.between, packRoot(kind, h.host[max(root, 0)]))
	if err != nil {
		return 0
	}
	return bound.Rate
}

// packRoot is the root for which trees of a collective are packed.
func packRoot(kind plan.Kind, root int) int {
	switch {
	case kind.HasParts():
		return pack.EveryRoot
	case kind.HasRoot():
		return max(root, 0)
	}
	return pack.BothWays
}

// Fullest is the rate in GB/s that a plan reaches with its trees and rings, as far as
// links and ports go; 0 for one without.
func (p *Planner) Fullest(s *Served) float64 {
	if len(s.Channels) == 0 || p.graph.Ranks == 1 {
		return 0
	}
	rate, err := p.pricer.FullRate(s.Plan)
	if err != nil { // there is none for ranks that cannot reach each other
		return 0
	}
	return rate
}
