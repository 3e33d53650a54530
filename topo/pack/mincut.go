package pack

import (
	"math"
	"slices"

	"github.com/treerun/treerun/topo"
)

// MinCut returns the cut of g that lets the least pass: two parts of the
// ranks, and what can go from one to the other at the same time. No Broadcast
// and no Reduce is faster, from or to any root.
//
// Without ports it is exact, by the algorithm of Stoer and Wagner (1997), and
// Broadcast reaches it. With ports it is the least of the cuts that come up
// there, of the ports and of the single ranks; what a root can reach is
// BroadcastBound's to say.
func MinCut(g *topo.Graph) (Bound, error) {
	w, err := newNetwork(g, 0)
	if err != nil {
		return Bound{}, err
	}
	best := Bound{Rate: math.Inf(1), Root: w.root}
	for _, parts := range w.sides() {
		if rate, price := w.across(parts); rate < best.Rate*(1-same) {
			best = w.priced(rate, price, parts)
		}
	}
	return best, nil
}

// sides returns the cuts that are likely to be the least: those of Stoer and
// Wagner, the ports, and the single ranks.
func (w *network) sides() [][][]int {
	sets := w.cuts()
	for v := range w.n {
		sets = append(sets, []int{v})
	}
	for _, p := range w.g.Ports {
		sets = append(sets, p.Ranks)
	}
	var list [][][]int
	for _, set := range sets {
		if len(set) < w.n {
			list = append(list, halves(w.n, set))
		}
	}
	return list
}

// halves returns the set and the ranks outside as a partition.
func halves(n int, set []int) [][]int {
	inside := make([]bool, n)
	for _, v := range set {
		inside[v] = true
	}
	parts := make([][]int, 2)
	for v := range n {
		i := 0
		if inside[v] != inside[0] {
			i = 1
		}
		parts[i] = append(parts[i], v)
	}
	return parts
}

// cuts returns the least cut of every phase of Stoer and Wagner's algorithm,
// by the rates of the links; the least of them is the minimum cut.
func (w *network) cuts() (sets [][]int) {
	rate := w.g.Rates()
	group := make([][]int, w.n) // by rank: those that were joined with it; nil once it is one of these
	for v := range group {
		group[v] = []int{v}
	}
	for alive := w.n; alive > 1; alive-- {
		joined := make([]float64, w.n) // by rank: its rate to those before it in the phase; -1 for these
		s, t := -1, -1                 // the last two: each has the largest rate to those before it
		for range alive {
			next := -1
			for v, j := range joined {
				if group[v] != nil && j >= 0 && (next < 0 || j > joined[next]) {
					next = v
				}
			}
			s, t, joined[next] = t, next, -1
			for v, j := range joined {
				if j >= 0 {
					joined[v] += rate.At(t, v)
				}
			}
		}
		sets = append(sets, slices.Clone(group[t]))
		group[s], group[t] = append(group[s], group[t]...), nil
		for v := range w.n {
			rate.Set(s, v, rate.At(s, v)+rate.At(t, v))
		}
	}
	return sets
}
