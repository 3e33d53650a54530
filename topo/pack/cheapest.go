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

// prim grows a tree from a start, for costs that are the same both ways: the
// cheapest arc that leaves the tree comes next, of equals the one to the
// lowest rank.
func (w *network) prim(start int, cost []float64) arcs {
	best := slices.Repeat([]float64{math.Inf(1)}, w.n)
	from := slices.Repeat(arcs{-1}, w.n)
	done := make([]bool, w.n)
	best[start] = 0
	for range w.n {
		u := -1
		for v, c := range best {
			if !done[v] && (u < 0 || c < best[u]) {
				u = v
			}
		}
		done[u] = true
		for _, e := range w.near[u] {
			if !done[e.to] && cost[e.id] < best[e.to] {
				best[e.to], from[e.to] = cost[e.id], e.id
			}
		}
	}
	return from
}

// branch is an arc between vertices of a contracted graph; id is its number
// before the contraction.
type branch struct {
	from, to int
	cost     float64
	id       int32
}

// edmonds returns the cheapest tree that leads away from the network's root,
// by the algorithm of Chu and Liu, and of Edmonds.
func (w *network) edmonds(cost []float64) arcs {
	list := make([]branch, 0, len(cost))
	for u, near := range w.near {
		for _, e := range near {
			if e.to != w.root {
				list = append(list, branch{u, e.to, cost[e.id], e.id})
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

// cheapestIn returns, of the branches between n vertices, by vertex the one of the
// cheapest tree away from root that leads there; -1 for root, where none leads.
func cheapestIn(n, root int, list []branch) []int {
	in := slices.Repeat([]int{-1}, n) // by vertex: its cheapest branch
	for i, b := range list {
		if in[b.to] < 0 || b.cost < list[in[b.to]].cost {
			in[b.to] = i
		}
	}
	name, count, cyclic := contract(root, list, in)
	if !cyclic {
		return in
	}
	var inner []branch
	for i, b := range list {
		if name[b.from] != name[b.to] {
			inner = append(inner, branch{name[b.from], name[b.to], b.cost - list[in[b.to]].cost, int32(i)})
		}
	}
	for v, e := range cheapestIn(count, name[root], inner) {
		if v != name[root] {
			i := int(inner[e].id)
			in[list[i].to] = i // enters a cycle here, and leaves out its branch
		}
	}
	return in
}

// contract names the vertices anew, those on one cycle of chosen branches
// alike, and reports whether there is a cycle.
func contract(root int, list []branch, in []int) (name []int, count int, cyclic bool) {
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

// widest returns a spanning tree that can have a large rate with so much left
// in every row. It grows the tree by the arc that leaves it the widest; with
// ports that is a heuristic, without them the tree is the widest there is.
func (w *network) widest(left []float64) arcs {
	if len(w.g.Ports) == 0 {
		cost := make([]float64, len(w.taken))
		for a, rows := range w.taken {
			cost[a] = -left[rows[0]]
		}
		return w.prim(max(0, w.root), cost)
	}
	t := make(arcs, w.n)
	inside := make([]bool, w.n)
	start := max(0, w.root)
	inside[start] = true
	t[start] = -1
	load := make([]float64, len(left))
	for range w.n - 1 {
		best, width := arc{id: -1}, -1.0
		for u, near := range w.near {
			if !inside[u] {
				continue
			}
			for _, e := range near {
				if inside[e.to] {
					continue
				}
				if v := w.room(e.id, left, load); v > width {
					best, width = e, v
				}
			}
		}
		inside[best.to] = true
		t[best.to] = best.id
		for _, r := range w.taken[best.id] {
			load[r]++
		}
	}
	return t
}

// room is the rate that arc a leaves to a tree that has taken load so far.
func (w *network) room(a int32, left, load []float64) float64 {
	least := math.Inf(1)
	for _, r := range w.taken[a] {
		least = min(least, left[r]/(load[r]+1))
	}
	return least
}
