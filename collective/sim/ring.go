package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// PriceRing prices a ring of any number of ranks in time that grows with their
// number, where the plan from FromRings grows with its square. A ring plan is
// symmetric: its lanes differ in nothing but the rank where they begin. So one
// lane is run, that which leaves out the cheapest hops, and the price is its
// time or, if that is longer, the time for which the lanes together hold the
// busiest link. Where all hops cost the same and a lane is one chunk, that is
// what Price says of the whole plan. With more chunks it is a few percent less,
// as lanes hold each other up; where some hops are slower than others it can be
// more than that.
//
// Ports and adapters shared by several links of the ring, workers and cores see
// one lane only.
func PriceRing(kind plan.Kind, ring []int, g *topo.Graph, bytes int64, m Machine) (Result, error) {
	n := len(ring)
	if kind == plan.Reduce || kind == plan.Broadcast || n < 2 {
		root := 0
		if n > 0 {
			root = ring[0]
		}
		p, err := plan.FromRings(kind, [][]int{ring}, nil, root, plan.Options{})
		if err != nil {
			return Result{}, err
		}
		return Price(p, g, bytes, m)
	}
	if n != g.Ranks {
		return Result{}, fmt.Errorf("sim: ring of %d ranks on a graph of %d", n, g.Ranks)
	}
	if err := g.Validate(); err != nil {
		return Result{}, err
	}
	w := newNetwork(g, topo.NewWays(g), &m)
	share := (bytes + int64(n) - 1) / int64(n)
	longest, err := w.longestLane(kind, ring, share)
	if err != nil {
		return Result{}, err
	}
	lane, err := plan.RingLane(kind, ring, longest)
	if err != nil {
		return Result{}, err
	}
	p := &plan.Plan{Name: fmt.Sprintf("ring of %d, one lane", n), Kind: kind, Size: n, Root: -1, Lanes: []plan.Lane{lane}}
	switch kind { // a lane that carries one part is a plan of its own
	case plan.AllGather:
		p.Kind, p.Root = plan.Broadcast, longest
	case plan.ReduceScatter:
		p.Kind, p.Root = plan.Reduce, longest
	}
	p.Lanes[0].Part = 0
	res, err := Price(p, g, share, m)
	if err != nil {
		return Result{}, err
	}
	hops := n - 1
	if p.Kind == kind { // a sum and a result
		hops *= 2
	}
	res.Bytes = bytes
	res.Loads = w.ringLoads(ring, share, hops)
	res.Us = max(res.Us, res.Loads[0].BusyUs)
	return res, nil
}

// longestLane returns the rank at which the lane ends that leaves out the
// cheapest hops: the one behind that rank on the way of the sum, the one before
// it on the way of the result.
func (w *network) longestLane(kind plan.Kind, ring []int, share int64) (end int, err error) {
	n := len(ring)
	cost := make([]float64, n) // of the hop to the next rank
	for i, r := range ring {
		at, err := w.route(r, ring[(i+1)%n])
		if err != nil {
			return 0, fmt.Errorf("sim: ring: %w", err)
		}
		link := w.resources[w.all[at].via[0]]
		cost[i] = w.all[at].latency + link.fixed + link.perByte*float64(share)
	}
	best, least := 0, 0.0
	for i := range ring {
		out := 0.0
		if kind != plan.AllGather && kind != plan.Broadcast {
			out += cost[i]
		}
		if kind != plan.ReduceScatter && kind != plan.Reduce {
			out += cost[(i+n-1)%n]
		}
		if i == 0 || out < least {
			best, least = i, out
		}
	}
	return ring[best], nil
}

// ringLoads returns what the links of a ring carry for all of its lanes, each
// with so many bytes that pass so many hops: every link sees every lane at one
// of them.
func (w *network) ringLoads(ring []int, share int64, hops int) []Load {
	chunks := int64(0)
	if share > 0 {
		c := w.m.chunk(share)
		chunks = (share + c - 1) / c
	}
	loads := make([]Load, 0, len(ring))
	for i, r := range ring {
		next := ring[(i+1)%len(ring)]
		link := w.resources[w.all[w.routes[[2]int32{int32(r), int32(next)}]].via[0]]
		once := float64(chunks)*link.fixed + float64(share)*link.perByte
		loads = append(loads, Load{fmt.Sprintf("%d -> %d", r, next), float64(hops) * once, int64(hops) * share})
	}
	slices.SortStableFunc(loads, func(a, b Load) int { return cmp.Compare(b.BusyUs, a.BusyUs) })
	return loads
}
