package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// flow is what 1 GB/s of message on a strand puts on a link in one direction.
type flow struct {
	from, to int
	amount   float64
}

// flows returns the flows of a strand for a collective.
func flows(s *Strand, kind plan.Kind, root int) []flow {
	if s.Ring != nil {
		return ringFlows(s.Ring, kind, root)
	}
	n := len(s.Tree.Parent)
	below := subtreeSizes(s.Tree)
	var list []flow
	for v, p := range s.Tree.Parent {
		if p < 0 {
			continue
		}
		up, down := 1.0, 1.0
		part := float64(below[v]) / float64(n)
		switch {
		case kind == plan.Reduce || s.OfPart && kind == plan.ReduceScatter:
			down = 0
		case kind == plan.Broadcast || s.OfPart && kind == plan.AllGather:
			up = 0
		case kind == plan.AllGather: // the parts from below go up, the others down
			up, down = part, 1-part
		case kind == plan.ReduceScatter:
			up, down = 1-part, part
		}
		list = append(list, flow{v, p, up}, flow{p, v, down})
	}
	return list
}

// ringFlows are those of collective/plan.FromRings.
func ringFlows(ring []int, kind plan.Kind, root int) []flow {
	n := len(ring)
	amount := float64(n-1) / float64(n)
	skip := -1 // the link that a chain does without begins here
	switch kind {
	case plan.AllReduce:
		amount *= 2
	case plan.Reduce, plan.Broadcast:
		amount = 1
		skip = root // a Reduce ends at the root
		if kind == plan.Broadcast {
			for i, v := range ring {
				if v == root {
					skip = ring[(i+n-1)%n]
				}
			}
		}
	}
	var list []flow
	for i, v := range ring {
		if next := ring[(i+1)%n]; v != skip && next != v {
			list = append(list, flow{v, next, amount})
		}
	}
	return list
}

// subtreeSizes returns the number of ranks in the subtree of every rank.
func subtreeSizes(t topo.Tree) []int {
	children := t.Children()
	order := []int{t.Root}
	for i := 0; i < len(order); i++ {
		order = append(order, children[order[i]]...)
	}
	size := make([]int, len(t.Parent))
	for i := len(order) - 1; i >= 0; i-- {
		v := order[i]
		size[v]++
		if p := t.Parent[v]; p >= 0 {
			size[p] += size[v]
		}
	}
	return size
}

func ringLatency(ring []int, kind plan.Kind, root int, latency hopLatency) float64 {
	sum := 0.0
	for _, f := range ringFlows(ring, kind, root) {
		hop := latency(f.from, f.to)
		if kind.HasRoot() {
			sum += hop
		} else {
			sum += hop * f.amount // every lane leaves out one hop
		}
	}
	return sum
}

// treeLatencies returns the latency between the root and the farthest rank, and between
// the two farthest ranks.
func treeLatencies(t topo.Tree, latency hopLatency) (depth, diameter float64) {
	children := t.Children()
	var deep func(v int) float64
	deep = func(v int) float64 {
		first := 0.0
		for _, c := range children[v] {
			d := deep(c) + latency(v, c)
			diameter = max(diameter, first+d)
			first = max(first, d)
		}
		return first
	}
	return deep(t.Root), diameter
}
