package pack

import (
	"math"
	"slices"

	"github.com/treerun/treerun/topo"
)

// delays returns the delay of every link: its latency in microseconds, or 1.
func (w *network) delays(us bool) []float64 {
	d := make([]float64, len(w.g.Links))
	for i, l := range w.g.Links {
		d[i] = 1
		if us {
			d[i] = l.LatencyUs
		}
	}
	return d
}

// shortestPaths returns the tree in which every rank is as near to the root as the graph allows, where a cost of 1
// counts as a delay of weight, and the delay from the root to every rank.
func (w *network) shortestPaths(root int, weight float64, cost, delay []float64) (arcs, []float64) {
	t := w.search(root, func(from float64, a int32) float64 { return from + delay[a/2] + float64(weight*cost[a]) })
	return t, w.treeDistances(root, t, delay)
}

// radius is the least height that a spanning tree can have, or for every root that the tree of some root must have.
func (w *network) radius(delay []float64) float64 {
	least, most, free := math.Inf(1), 0.0, make([]float64, len(w.Takes))
	for v := range w.n {
		if w.root < 0 || v == w.root {
			_, depth := w.shortestPaths(v, 0, free, delay)
			far := slices.Max(depth)
			least, most = min(least, far), max(most, far)
		}
	}
	if w.root == EveryRoot {
		return most
	}
	return least
}

// center returns the root from which the tree has the least height, and that
// height. Of equals it is the one with the fewest hops, then the lowest rank.
func (w *network) center(t arcs, delay []float64) (root int, height float64) {
	hops := w.delays(false)
	far := w.eccentricities(t, delay)
	deep := w.eccentricities(t, hops)
	if w.root >= 0 {
		return w.root, far[w.root]
	}
	for v := range far {
		if far[v] < far[root] || far[v] == far[root] && deep[v] < deep[root] {
			root = v
		}
	}
	return root, far[root]
}

// height returns the delay from the root of t to the farthest rank: from its center where the root does not matter.
func (w *network) height(t arcs, delay []float64) float64 {
	if w.root == EveryRoot {
		return slices.Max(w.treeDistances(t.root(), t, delay))
	}
	_, height := w.center(t, delay)
	return height
}

// eccentricities returns, for every rank, the delay to the rank farthest from
// it in the tree: that is one of the two ends of the longest path.
func (w *network) eccentricities(t arcs, delay []float64) []float64 {
	farthest := func(dist []float64) int { return slices.Index(dist, slices.Max(dist)) }
	a := w.treeDistances(farthest(w.treeDistances(0, t, delay)), t, delay)
	b := w.treeDistances(farthest(a), t, delay)
	for v := range a {
		a[v] = max(a[v], b[v])
	}
	return a
}

// treeDistances returns the delay from a rank to all ranks over the tree.
func (w *network) treeDistances(from int, t arcs, delay []float64) []float64 {
	t = w.rerooted(t, from)
	dist := slices.Repeat([]float64{-1}, w.n)
	dist[from] = 0
	var to func(v int) float64
	to = func(v int) float64 {
		if dist[v] < 0 {
			dist[v] = to(w.parent(t[v])) + delay[t[v]/2]
		}
		return dist[v]
	}
	for v := range dist {
		to(v)
	}
	return dist
}

// rerooted returns t with another root: the arcs on the way there are turned.
func (w *network) rerooted(t arcs, root int) arcs {
	t = slices.Clone(t)
	for v, in := root, int32(-1); v >= 0; {
		out := t[v]
		t[v] = in
		v, in = w.parent(out), out^1
	}
	return t
}

// rooted returns t as a tree from the given root, which must be the network's
// where it has one.
func (w *network) rooted(t arcs, root int) topo.Tree {
	tree := topo.Tree{Root: root}
	for _, a := range w.rerooted(t, root) {
		tree.Parent = append(tree.Parent, w.parent(a))
	}
	return tree
}
