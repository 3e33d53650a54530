package tree

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// along returns the tree that is a path through ranks in their order.
func along(order []int) topo.Tree {
	t := topo.Tree{Root: order[0], Parent: slices.Repeat([]int{-1}, len(order))}
	for i, v := range order[1:] {
		t.Parent[v] = order[i]
	}
	return t
}

// PathOf returns the ranks of a tree that is a path, from its root on.
func PathOf(t topo.Tree) ([]int, error) {
	path, children := []int{t.Root}, t.Children()
	for below := children[t.Root]; len(below) == 1; below = children[below[0]] {
		path = append(path, below[0])
	}
	if len(path) < len(t.Parent) {
		return nil, fmt.Errorf("tree: a path of %d of %d ranks", len(path), len(t.Parent))
	}
	return path, nil
}

// Chain returns the tree that is a single path from the root, as NCCL uses inside a host, found as Rings does.
// Where no path from the root to all ranks is found, the quickest links that keep the tree connected stand in for the
// missing ones, and its Note reports that.
func Chain(g *topo.Graph, root int) topo.Tree {
	w := newNet(g)
	order, least := walk(w, root)
	t := along(order)
	if least == 0 && w.n > 1 {
		t = mend(w, t)
		t.Note = fmt.Sprintf("no path over the graph's links from root %d to all ranks was found; "+
			"this is a tree with few branches", root)
	}
	return t
}

// Star returns the tree in which all ranks are children of the root: the parameter server. Where the root lacks links,
// the shallowest spanning tree comes back, and its Note reports that.
func Star(g *topo.Graph, root int) topo.Tree {
	w := newNet(g)
	t := shallowest(w, root)
	if far := g.Ranks - 1 - len(w.near[root]); far > 0 {
		t.Note = fmt.Sprintf("root %d has no link with %d of %d ranks; this is the shallowest spanning tree",
			root, far, g.Ranks-1)
	}
	return t
}

// The orders that are tried, and a bound on tries times ranks squared.
const (
	maxWalks = 256
	walkWork = 100_000_000
)

// walk returns an order of all ranks in which each has a link to the next, and
// the rate of its slowest link: a path from the given start, or with start -1 a
// ring, beginning with rank 0. It tries orders that begin differently, and takes the
// cheapest, whose slowest links are quick. Where it finds no such order the rate is 0,
// and the order lacks as few links as it can; without any link it is nil.
func walk(g *net, start int) (best []int, slowest float64) {
	links := g.links()
	switch {
	case g.n == 1:
		return []int{0}, 0
	case len(links) == 0:
		return nil, 0
	}
	w := &walker{g: g, start: start, quickest: links[0].GBytesPerSecond}
	w.missing = float64(g.n) * w.cost(links[len(links)-1].GBytesPerSecond)
	least := math.Inf(1)
	for i := range max(1, min(maxWalks, walkWork/(g.n*g.n))) {
		first, skip := start, i
		if start < 0 {
			first, skip = i%g.n, i/g.n
		}
		order := w.grow(first, skip)
		w.exchange(order)
		cost, rate := 0.0, math.Inf(1)
		for i, v := range order[1:] {
			cost, rate = cost+w.price(order[i], v), min(rate, g.at(order[i], v))
		}
		if cost < least {
			best, least, slowest = order, cost, rate
		}
		if rate == w.quickest {
			break
		}
	}
	if start < 0 {
		first := slices.Index(best, 0)
		best = slices.Concat(best[first:g.n], best[:first])
		if best[1] > best[g.n-1] {
			slices.Reverse(best[1:])
		}
	}
	return best, slowest
}

// walker looks for an order of ranks over quick links.
type walker struct {
	g        *net
	start    int // -1: any, and the first rank of an order stands at its end again
	quickest float64
	missing  float64 // the price of a missing link: more than all others together
}

// price is the cost of the step from u to v.
func (w *walker) price(u, v int) float64 {
	if rate := w.g.at(u, v); rate > 0 {
		return w.cost(rate)
	}
	return w.missing
}

// cost is the price of a link of a rate: the slowest links of an order decide.
func (w *walker) cost(rate float64) float64 {
	x := w.quickest / rate
	x *= x
	x *= x
	return float64(x * x)
}

// grow goes from rank to rank over the quickest link, of equals to where the fewest ranks are left to go on to, and
// without a link to such a rank. The digits of skip are the numbers of better ones that the first steps pass over.
func (w *walker) grow(start, skip int) []int {
	var order []int
	inside := make([]bool, w.g.n)
	free := make([]int, w.g.n) // by rank: its neighbors outside
	for v, near := range w.g.near {
		free[v] = len(near)
	}
	add := func(v int) {
		order, inside[v] = append(order, v), true
		for _, u := range w.g.near[v] {
			free[u]--
		}
	}
	add(start)
	for len(order) < w.g.n {
		u := order[len(order)-1]
		next := slices.DeleteFunc(slices.Clone(w.g.near[u]), func(v int) bool { return inside[v] })
		if len(next) == 0 {
			next = slices.DeleteFunc(numbers.Below(w.g.n), func(v int) bool { return inside[v] })
		}
		better := func(x, y int) int { return cmp.Or(cmp.Compare(w.g.at(u, y), w.g.at(u, x)), free[x]-free[y], x-y) }
		v := slices.MinFunc(next, better)
		if skip > 0 {
			slices.SortFunc(next, better)
			v = next[skip%len(next)]
			skip /= len(next)
		}
		add(v)
	}
	if w.start < 0 {
		order = append(order, start)
	}
	return order
}

// exchange turns round parts of an order while that lowers its cost: two links
// are opened, and their ends joined the other way (2-opt).
func (w *walker) exchange(order []int) {
	for better, pass := true, 0; better && pass < maxPasses; pass++ {
		better = false
		for i := 1; i < w.g.n; i++ {
			for j := i + 1; j < w.g.n; j++ {
				a, b, c := order[i-1], order[i], order[j]
				before, after := w.price(a, b), w.price(a, c)
				if j+1 < len(order) {
					before += w.price(c, order[j+1])
					after += w.price(b, order[j+1])
				}
				if after < before*(1-1e-9) {
					slices.Reverse(order[i : j+1])
					better = true
				}
			}
		}
	}
}
