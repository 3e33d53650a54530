package pack

import "slices"

// bounded packs trees of at most a height. The cheapest tree of a height is
// NP-hard to find, so the trees that column generation adds come from a
// heuristic, and the result has no certificate of its own; the bound of
// unlimited trees holds for it too.
func (p *packing) bounded(delay []float64, height float64, seed uint64) *packing {
	b := newPacking(p.w)
	b.bound, b.proof = p.bound, p.proof
	if p.w.root == EveryRoot {
		b.aim()
	}
	b.m.limit = p.left
	for _, t := range p.pool.trees {
		if p.w.height(t, delay) <= height*(1+same) {
			b.add(t)
		}
	}
	if p.w.root != EveryRoot {
		grown := newPool(p.w)
		for _, parts := range []float64{1, 4, 16, 64} {
			quantum := p.bound / parts
			newGreedy(p.w, delay, height, quantum*same, quantum, seed).trees(grown)
		}
		for _, t := range grown.trees {
			b.add(t)
		}
	}
	price := make([]float64, len(p.caps))
	cost := make([]float64, len(p.w.Takes))
	next := 0
	for range 20 * p.w.n {
		if !b.m.solve(20 * len(p.caps)) {
			break
		}
		b.m.prices(price)
		p.w.costs(price, cost)
		fresh := 0
		for i := range p.w.n {
			root := (next + i) % p.w.n
			if p.w.root >= 0 && root != p.w.root || b.m.spent > b.m.limit {
				continue
			}
			b.m.spent += float64(4 * p.w.n * (p.w.n + len(p.w.Takes)))
			t, ok := p.w.shallow(root, cost, delay, height)
			if !ok || p.w.column(t).gain(price) <= smallPrice {
				continue
			}
			if known := len(b.pool.trees); b.add(t) == known {
				if fresh++; fresh == perRound {
					next = root + 1
					break
				}
			}
		}
		if fresh == 0 || b.m.value() >= b.bound*(1-closed) {
			break
		}
	}
	p.left -= b.m.spent
	return b
}

// lowered returns a packing for every root with the lowest trees that the tolerance of o allows.
func (p *packing) lowered(o Options) *packing {
	if o.HeightTolerance == 0 {
		return p
	}
	delay, best := p.w.delays(o.HeightUs), p
	least := p.total(p.rates()) * (1 - o.HeightTolerance) * (1 - same)
	lower(p.w.radius(delay), p.highest(delay), !o.HeightUs, func(height float64) (float64, bool) {
		b := p.bounded(delay, height, o.Seed)
		if b.total(b.rates()) < least {
			return 0, false
		}
		best = b
		return b.highest(delay), true
	})
	return best
}

// highest is the height of the highest tree in use.
func (p *packing) highest(delay []float64) float64 {
	most := 0.0
	for k, rate := range p.rates() {
		if rate > p.bound*slightest/float64(p.w.n) {
			most = max(most, p.w.height(p.pool.trees[k], delay))
		}
	}
	return most
}

// perRound is the largest number of trees that are added before the program is solved again.
const perRound = 16

// shallowPasses bounds the passes of shallow; few trees need more than three.
const shallowPasses = 8

// shallow returns a cheap spanning tree whose ranks are all within height of
// root, and whether there is one. It begins with the shortest paths and moves
// ranks, with all below them, to cheaper parents while their depth allows it.
func (w *network) shallow(root int, cost, delay []float64, height float64) (arcs, bool) {
	limit := height * (1 + same)
	var t arcs
	var depth []float64
	for _, weight := range []float64{height, height / 8, height * closed} {
		if t, depth = w.shortestPaths(root, weight, cost, delay); slices.Max(depth) <= limit {
			break
		}
	}
	if slices.Max(depth) > limit {
		return nil, false
	}
	for range shallowPasses {
		moved := false
		for v := range w.n {
			if v != root && w.reattach(t, root, depth, v, cost, delay, limit) {
				moved = true
			}
		}
		if !moved {
			break
		}
	}
	return t, true
}

// reattach gives v a cheaper parent, if one is near enough to the root and not
// below v.
func (w *network) reattach(t arcs, root int, depth []float64, v int, cost, delay []float64, limit float64) bool {
	below := func(u int) bool {
		for u >= 0 && u != v {
			u = w.parent(t[u])
		}
		return u == v
	}
	reach := 0.0
	for u, d := range depth {
		if below(u) {
			reach = max(reach, d-depth[v])
		}
	}
	best := t[v]
	for _, e := range w.Near[v] {
		in := e.ID ^ 1 // the arc from the neighbor to v
		if !below(e.To) && depth[e.To]+delay[e.ID/2]+reach <= limit && cost[in] < cost[best]-smallPrice {
			best = in
		}
	}
	if best == t[v] {
		return false
	}
	t[v] = best
	copy(depth, w.treeDistances(root, t, delay))
	return true
}
