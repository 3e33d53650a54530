package tree

import (
	"fmt"

	"github.com/treerun/treerun/topo"
)

// Ring is an order of all ranks in which each has a link to the next and the
// last to the first: NCCL's ring. Two ranks make a ring of their one link.
type Ring struct {
	Order           []int   // ranks, from rank 0 on; of both directions the one with the lower second rank
	GBytesPerSecond float64 // the rate of its slowest link; 0 for one rank
}

// NoRingError says that no ring was found over the links of a graph.
type NoRingError struct{ Ranks int }

// Error names the ranks.
func (e *NoRingError) Error() string {
	return fmt.Sprintf("tree: found no ring over the graph's links that visits all %d ranks", e.Ranks)
}

// BestRing returns a ring whose slowest link is quick, and of those one of a
// large total rate. It is a heuristic: orders that grow from rank to rank over
// the quickest link, and then exchange links (2-opt). Without a ring the error
// is a *NoRingError.
func BestRing(g *topo.Graph) (Ring, error) {
	if err := g.Validate(); err != nil {
		return Ring{}, err
	}
	return bestRing(newNet(g))
}

func bestRing(w *net) (Ring, error) {
	order, least := walk(w, -1)
	if least == 0 && w.n > 1 {
		return Ring{}, &NoRingError{Ranks: w.n}
	}
	return Ring{Order: order, GBytesPerSecond: least}, nil
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
// inside a host, found as BestRing finds its ring. Where no path from the root
// to all ranks is found, the quickest links that keep the tree connected stand
// in for the missing ones, and its Note says so.
func Chain(g *topo.Graph, root int) (topo.Tree, error) {
	if err := check(g, root); err != nil {
		return topo.Tree{}, err
	}
	w := newNet(g)
	order, least := walk(w, root)
	t := topo.Tree{Root: root, Parent: make([]int, w.n)}
	t.Parent[root] = -1
	for i := 1; i < w.n; i++ {
		t.Parent[order[i]] = order[i-1]
	}
	if least == 0 && w.n > 1 {
		t = mend(w, t)
		t.Note = fmt.Sprintf("no path over the graph's links from root %d to all ranks was found; this is a tree with few branches", root)
	}
	return t, nil
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
