package tree

import (
	"cmp"
	"fmt"

	"github.com/treerun/treerun/topo"
)

// Ring is an order of all ranks in which each has a link to the next and the
// last to the first: NCCL's ring. Two ranks make a ring of their one link.
type Ring struct {
	Order           []int   // ranks, from rank 0 on; of both directions the one with the lower second rank
	GBytesPerSecond float64 // the rate of its slowest link; 0 for one rank
}

// NoRingError says that a graph has no ring for want of links.
type NoRingError struct {
	Ranks  int
	Proven bool // no ring exists; otherwise none was found
}

// Error says whether there is no ring, or none was found.
func (e *NoRingError) Error() string {
	if e.Proven {
		return fmt.Sprintf("tree: no ring over the graph's links visits all %d ranks", e.Ranks)
	}
	return fmt.Sprintf("tree: found no ring over the graph's links that visits all %d ranks", e.Ranks)
}

// BestRing returns the ring whose slowest link is as quick as possible, and of
// those the one with the largest total rate. Up to MaxExact ranks it is exact
// (dynamic programming over sets of ranks, after Held and Karp, 1962); above it
// is a heuristic that grows and turns paths and then exchanges links. Without a
// ring the error is a *NoRingError.
func BestRing(g *topo.Graph) (Ring, error) {
	if err := g.Validate(); err != nil {
		return Ring{}, err
	}
	return bestRing(newNet(g))
}

func bestRing(w *net) (Ring, error) {
	r := Ring{Order: walk(w, -1)}
	if r.Order == nil {
		return Ring{}, &NoRingError{Ranks: w.n, Proven: w.n <= MaxExact}
	}
	r.GBytesPerSecond = w.slowest(r.Order, true)
	return r, nil
}

// Rings returns rings that can be used at the same time, each with its rate in
// both directions: BestRing's first, then the best of what the links have left
// when the rings before have taken their rates, as NCCL makes its channels,
// until no ring is left or there are most of them. On a DGX-1V that is a ring
// of the double NVLinks and one of the single ones. The first rings decide what
// is left, so the sum is not always the largest. Ports are not looked at.
func Rings(g *topo.Graph, most int) ([]Ring, error) {
	first, err := BestRing(g)
	if err != nil {
		return nil, err
	}
	rings := []Ring{first}
	if g.Ranks < 3 {
		return rings, nil
	}
	left := *g
	for len(rings) < most {
		left.Links = without(left.Links, rings[len(rings)-1])
		r, err := bestRing(newNet(&left))
		if err != nil {
			break
		}
		rings = append(rings, r)
	}
	return rings, nil
}

// without returns the links less the rate that a ring takes of its own.
func without(links []topo.Link, r Ring) []topo.Link {
	place := make([]int, len(r.Order))
	for i, v := range r.Order {
		place[v] = i
	}
	var left []topo.Link
	for _, l := range links {
		before := l.GBytesPerSecond
		if d := (place[l.A] - place[l.B] + len(place)) % len(place); d == 1 || d == len(place)-1 {
			l.GBytesPerSecond -= r.GBytesPerSecond
		}
		if l.GBytesPerSecond > 1e-9*before {
			left = append(left, l)
		}
	}
	return left
}

// Chain returns the tree that is a single path from the root, as NCCL uses
// inside a host, with the quickest slowest link and then the largest total
// rate, exact up to MaxExact ranks. Where no path from the root visits all
// ranks, or none is found, a deep tree with few branches comes back, and its
// Note says so.
func Chain(g *topo.Graph, root int) (topo.Tree, error) {
	if err := check(g, root); err != nil {
		return topo.Tree{}, err
	}
	w := newNet(g)
	t := topo.Tree{Root: root, Parent: make([]int, w.n)}
	t.Parent[root] = -1
	order := walk(w, root)
	for i := 1; i < len(order); i++ {
		t.Parent[order[i]] = order[i-1]
	}
	if order == nil {
		t = deep(w, root)
		t.Note = fmt.Sprintf("no path over the graph's links from root %d to all ranks was found; this is a tree with few branches", root)
	}
	return t, nil
}

// deep is a tree of paths: each goes on to the unvisited neighbour that has the
// fewest unvisited ones of its own, quick links first, as far as it can.
func deep(g *net, root int) topo.Tree {
	t := topo.Tree{Root: root, Parent: make([]int, g.n)}
	t.Parent[root] = -1
	d := newGrowth(g, root)
	for path := []int{root}; len(path) > 0; {
		u := path[len(path)-1]
		v := d.narrowest(u)
		if v < 0 {
			path = path[:len(path)-1]
			continue
		}
		t.Parent[v] = u
		d.add(v)
		path = append(path, v)
	}
	return t
}

// narrowest returns u's neighbour outside with the fewest neighbours outside,
// then the quickest, then the lowest; -1 when all are in.
func (d *growth) narrowest(u int) int {
	best := topo.Neighbour{Rank: -1}
	for _, e := range d.g.near[u] {
		if d.inside[e.Rank] {
			continue
		}
		if best.Rank < 0 || cmp.Or(d.outside[best.Rank]-d.outside[e.Rank], cmp.Compare(e.GBytesPerSecond, best.GBytesPerSecond)) > 0 {
			best = e
		}
	}
	return best.Rank
}

// Star returns the tree in which all ranks are children of the root: the
// parameter server. Where the root lacks links, the shallowest spanning tree
// comes back, and its Note says so.
func Star(g *topo.Graph, root int) (topo.Tree, error) {
	if err := check(g, root); err != nil {
		return topo.Tree{}, err
	}
	t, depth := shallowest(newNet(g), root)
	far := 0
	for _, d := range depth {
		if d > 1 {
			far++
		}
	}
	if far > 0 {
		t.Note = fmt.Sprintf("root %d has no link with %d of %d ranks; this is the shallowest spanning tree", root, far, g.Ranks-1)
	}
	return t, nil
}

// slowest returns the rate of the slowest link along order, back to its start
// when closed.
func (g *net) slowest(order []int, closed bool) float64 {
	least := 0.0
	for i, v := range order {
		if i == 0 && (!closed || g.n == 1) {
			continue
		}
		rate := g.at(v, order[(i+g.n-1)%g.n])
		if least == 0 || rate < least {
			least = rate
		}
	}
	return least
}
