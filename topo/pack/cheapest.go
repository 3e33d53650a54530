package pack

import (
	"math"
	"slices"
)

// cheapest returns a spanning tree whose arcs cost the least together. Every
// connected graph has one.
func (w *network) cheapest(cost []float64) arcs {
	if w.root < 0 {
		return w.prim(0, cost)
	}
	return w.edmonds(cost)
}

// prim returns the cheapest tree for costs that are the same both ways.
func (w *network) prim(start int, cost []float64) arcs {
	return w.search(start, func(_ float64, a int32) float64 { return cost[a] })
}

// search grows a tree from a start: the rank with the least label comes next, of equals the
// lowest one. The label of a rank is the least that its arcs from the tree give.
func (w *network) search(start int, give func(from float64, a int32) float64) arcs {
	t := slices.Repeat(arcs{-1}, w.n)
	label := slices.Repeat([]float64{math.Inf(1)}, w.n)
	done := make([]bool, w.n)
	label[start] = 0
	for range w.n {
		u := -1
		for v, c := range label {
			if !done[v] && (u < 0 || c < label[u]) {
				u = v
			}
		}
		done[u] = true
		for _, e := range w.Near[u] {
			if l := give(label[u], e.ID); !done[e.To] && l < label[e.To] {
				label[e.To], t[e.To] = l, e.ID
			}
		}
	}
	return t
}

// edge is an arc between vertices of a contracted graph; id is its number
// before the contraction.
type edge struct {
	from, to int
	cost     float64
	id       int32
}

// edmonds returns the cheapest tree that leads away from the network's root,
// by the algorithm of Chu and Liu, and of Edmonds.
func (w *network) edmonds(cost []float64) arcs {
	list := make([]edge, 0, len(cost))
	for u, near := range w.Near {
		for _, e := range near {
			if e.To != w.root {
				list = append(list, edge{u, e.To, cost[e.ID], e.ID})
			}
		}
	}
	t := make(arcs, w.n)
	t[w.root] = -1
	for v, i := range cheapestIn(w.n, w.root, list) {
		if v != w.root {
			t[v] = list[i].id
		}
	}
	return t
}

// cheapestIn returns, of the edges between n vertices, by vertex the one of the
// cheapest tree away from root that leads there; -1 for root, where none leads.
func cheapestIn(n, root int, list []edge) []int {
	in := slices.Repeat([]int{-1}, n) // by vertex: its cheapest edge
	for i, b := range list {
		if in[b.to] < 0 || b.cost < list[in[b.to]].cost {
			in[b.to] = i
		}
	}
	name, count, cyclic := contract(root, list, in)
	if !cyclic {
		return in
	}
	var inner []edge
	for i, b := range list {
		if name[b.from] != name[b.to] {
			inner = append(inner, edge{name[b.from], name[b.to], b.cost - list[in[b.to]].cost, int32(i)})
		}
	}
	for v, e := range cheapestIn(count, name[root], inner) {
		if v != name[root] {
			i := int(inner[e].id)
			in[list[i].to] = i // enters a cycle here, and leaves out its edge
		}
	}
	return in
}

// contract gives the vertices new names, one name to all those on a cycle of chosen edges, and reports whether there is
// a cycle.
func contract(root int, list []edge, in []int) (name []int, count int, cyclic bool) {
	name = slices.Repeat([]int{-1}, len(in))
	seen := make([]int, len(in)) // the walk that came by, 1-based
	for start := range in {
		v := start
		for v != root && seen[v] == 0 {
			seen[v] = start + 1
			v = list[in[v]].from
		}
		if v == root || seen[v] != start+1 || name[v] >= 0 {
			continue
		}
		cyclic = true
		for u := v; name[u] < 0; u = list[in[u]].from {
			name[u] = count
		}
		count++
	}
	for v := range name {
		if name[v] < 0 {
			name[v] = count
			count++
		}
	}
	return name, count, cyclic
}
