package planner

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// certificate is a rate that no plan for the collective exceeds, and why.
type certificate struct {
	rate      float64 // GB/s of message; 0: not known
	partition [][]int // nil: no single partition is the limit
	words     string
}

// certify finds the bound of the request.
func (r *request) certify() (certificate, error) {
	var b pack.Bound
	var err error
	switch {
	case r.g.Ranks == 1:
		return certificate{words: "none: one rank sends nothing"}, nil
	case r.kind.HasParts() && r.g.Ranks > pack.MaxPartRanks:
		return partsBound(r.g), nil
	case r.g.Ranks > pack.MaxRanks:
		return certificate{words: fmt.Sprintf("not known above %d ranks", pack.MaxRanks)}, nil
	case r.proved != nil: // by the packing
		b = *r.proved
	case r.kind.HasParts():
		b, err = pack.PartsBound(r.g)
	case r.kind.HasRoot():
		b, err = pack.BroadcastBound(r.g, r.root)
	default:
		b, err = pack.TreeBound(r.g)
	}
	if err == nil {
		err = b.Check(r.g)
	}
	if err != nil {
		return certificate{}, fmt.Errorf("bound of %s: %w", title(r.g), err)
	}
	return certificate{b.Rate, b.Partition, b.String()}, nil
}

// partsBound is a bound of an AllGather or a ReduceScatter for more ranks than
// pack.PartsBound takes: what k of n ranks give, k/n of the message, has to
// leave them over the links of the cut around them, and around one that a port
// makes over the port. It looks at the cuts around one rank, one host or the
// ranks of one port.
func partsBound(g *topo.Graph) certificate {
	best := certificate{rate: math.Inf(1)}
	in := make([]bool, g.Ranks)
	for _, ranks := range suspects(g) {
		clear(in)
		for _, v := range ranks {
			in[v] = true
		}
		if rate := cutRate(g, in); rate < best.rate*(1-1e-12) {
			best.rate, best.partition = rate, twoParts(in)
		}
	}
	best.words = fmt.Sprintf("what can pass at the same time between {%s} and {%s} is the limit", topo.RankList(best.partition[0]), topo.RankList(best.partition[1]))
	return best
}

// suspects are the cuts that partsBound looks at.
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

// cutRate is the bound that the cut around a set of ranks gives.
func cutRate(g *topo.Graph, in []bool) float64 {
	capacity, size := 0.0, 0
	for _, l := range g.Links {
		if in[l.A] != in[l.B] {
			capacity += l.GBytesPerSecond
		}
	}
	for _, is := range in {
		if is {
			size++
		}
	}
	for _, p := range g.Ports {
		inside := 0
		for _, r := range p.Ranks {
			if in[r] {
				inside++
			}
		}
		// The port's set is this set, or all the others.
		if len(p.Ranks) == size && inside == size || len(p.Ranks) == g.Ranks-size && inside == 0 {
			capacity = min(capacity, p.GBytesPerSecond)
		}
	}
	return capacity * float64(g.Ranks) / float64(max(size, g.Ranks-size))
}

// twoParts returns the ranks inside and outside, those of rank 0 first.
func twoParts(in []bool) [][]int {
	parts := make([][]int, 2)
	for v, is := range in {
		i := 0
		if is != in[0] {
			i = 1
		}
		parts[i] = append(parts[i], v)
	}
	return parts
}
