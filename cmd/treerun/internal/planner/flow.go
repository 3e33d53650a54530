package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// strand is a tree or a ring with what it can do.
type strand struct {
	tree      topo.Tree
	ring      []int   // not nil: a ring in this direction, and tree is nothing
	mirrored  bool    // the ring of the strand before, the other way round
	rate      float64 // GB/s of message, all strands in use
	alone     float64 // GB/s of message, no other strand in use
	latencyUs float64 // of the whole operation
}

// flow is what 1 GB/s of message on a strand puts on a link in one direction.
type flow struct {
	from, to int
	amount   float64
}

// flows returns the flows of a strand for a collective.
func flows(s *strand, kind plan.Kind, root int) []flow {
	if s.ring != nil {
		return ringFlows(s.ring, kind, root)
	}
	n := len(s.tree.Parent)
	below := subtreeSizes(s.tree)
	var list []flow
	for v, p := range s.tree.Parent {
		if p < 0 {
			continue
		}
		up, down := 1.0, 1.0
		part := float64(below[v]) / float64(n)
		switch kind {
		case plan.Reduce:
			down = 0
		case plan.Broadcast:
			up = 0
		case plan.AllGather: // the parts from below go up, the others down
			up, down = part, 1-part
		case plan.ReduceScatter:
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

// fullest returns how full the fullest link or port is, in one direction, when
// strand i carries rates[i] GB/s of message: above 1 is too much.
func fullest(g *topo.Graph, strands []strand, rates []float64, kind plan.Kind, root int) float64 {
	carried := make(map[[2]int]float64)
	for i := range strands {
		for _, f := range flows(&strands[i], kind, root) {
			carried[[2]int{f.from, f.to}] += rates[i] * f.amount
		}
	}
	in, out := make([]float64, len(g.Ports)), make([]float64, len(g.Ports))
	member := make([]map[int]bool, len(g.Ports))
	for p, port := range g.Ports {
		member[p] = make(map[int]bool)
		for _, r := range port.Ranks {
			member[p][r] = true
		}
	}
	most := 0.0
	crossed := g.Crossed()
	for i, l := range g.Links {
		ab, ba := carried[[2]int{l.A, l.B}], carried[[2]int{l.B, l.A}]
		most = max(most, ab/l.GBytesPerSecond, ba/l.GBytesPerSecond)
		for _, p := range crossed[i] {
			if member[p][l.B] {
				in[p], out[p] = in[p]+ab, out[p]+ba
			} else {
				in[p], out[p] = in[p]+ba, out[p]+ab
			}
		}
	}
	for p, port := range g.Ports {
		most = max(most, in[p]/port.GBytesPerSecond, out[p]/port.GBytesPerSecond)
	}
	return most
}

// fit gives the strands rates in the proportion of weights, as large as the
// links and ports let them be together; nil weights are equal.
func fit(g *topo.Graph, strands []strand, weights []float64, kind plan.Kind, root int) {
	if weights == nil {
		weights = make([]float64, len(strands))
		for i := range weights {
			weights[i] = 1
		}
	}
	full := fullest(g, strands, weights, kind, root)
	for i := range strands {
		if full > 0 { // one rank sends nothing
			strands[i].rate = weights[i] / full
		}
	}
}

// measure sets what does not depend on the other strands: the rate alone and
// the latency of the operation.
func measure(g *topo.Graph, strands []strand, kind plan.Kind, root int) {
	latency := make(map[[2]int]float64, 2*len(g.Links))
	for _, l := range g.Links {
		latency[[2]int{l.A, l.B}] = l.LatencyUs
		latency[[2]int{l.B, l.A}] = l.LatencyUs
	}
	for i := range strands {
		s := &strands[i]
		s.alone = 1
		if full := fullest(g, strands[i:i+1], []float64{1}, kind, root); full > 0 {
			s.alone = 1 / full
		}
		if s.ring != nil {
			s.latencyUs = ringLatency(s.ring, kind, root, latency)
			continue
		}
		s.latencyUs = treeLatency(s.tree, latency)
		switch kind {
		case plan.AllReduce:
			s.latencyUs *= 2
		case plan.AllGather, plan.ReduceScatter: // from the farthest rank to the farthest rank
			s.latencyUs = diameter(s.tree, latency)
		}
	}
}

func ringLatency(ring []int, kind plan.Kind, root int, latency map[[2]int]float64) float64 {
	sum := 0.0
	for _, f := range ringFlows(ring, kind, root) {
		hop := latency[[2]int{f.from, f.to}]
		if kind.HasRoot() {
			sum += hop
		} else {
			sum += hop * f.amount // every lane leaves out one hop
		}
	}
	return sum
}

// treeLatency is the latency between the root and the farthest rank.
func treeLatency(t topo.Tree, latency map[[2]int]float64) float64 {
	far := 0.0
	children := t.Children()
	var walk func(v int, at float64)
	walk = func(v int, at float64) {
		far = max(far, at)
		for _, c := range children[v] {
			walk(c, at+latency[[2]int{v, c}])
		}
	}
	walk(t.Root, 0)
	return far
}

// diameter is the latency between the two farthest ranks.
func diameter(t topo.Tree, latency map[[2]int]float64) float64 {
	children, most := t.Children(), 0.0
	var deep func(v int) float64
	deep = func(v int) float64 {
		first := 0.0
		for _, c := range children[v] {
			d := deep(c) + latency[[2]int{v, c}]
			most = max(most, first+d)
			first = max(first, d)
		}
		return first
	}
	deep(t.Root)
	return most
}
