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

// Rings returns rings that can be used at the same time, each with its rate in
// both directions: first one whose slowest link is quick, and of those one of a large
// total rate, then the best of what the links have left
// when the rings before have taken their rates, as NCCL makes its channels,
// until no ring is left or there are most of them. It is a heuristic: orders that grow from
// rank to rank over the quickest link, and then exchange links (2-opt). On a DGX-1V that is a ring
// of the double NVLinks and one of the single ones. The first rings decide what
// is left, so the sum is not always the largest. Ports are not looked at.
func Rings(g *topo.Graph, most int) ([]Ring, error) {
	var rings []Ring
	left := *g
	for len(rings) < most {
		order, least := walk(newNet(&left), -1)
		if least == 0 && g.Ranks > 1 {
			break
		}
		rings = append(rings, Ring{Order: order, GBytesPerSecond: least})
		if g.Ranks < 3 {
			break
		}
		left.Links = without(left.Links, rings[len(rings)-1])
	}
	if len(rings) == 0 {
		return nil, fmt.Errorf("tree: found no ring over the graph's links that visits all %d ranks", g.Ranks)
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
// inside a host, found as Rings finds a ring. Where no path from the root
// to all ranks is found, the quickest links that keep the tree connected stand
// in for the missing ones, and its Note says so.
func Chain(g *topo.Graph, root int) topo.Tree {
	w := newNet(g)
	order, least := walk(w, root)
	t := topo.Tree{Root: root, Parent: make([]int, w.n)}
	t.Parent[root] = -1
	for i := 1; i < w.n; i++ {
		t.Parent[order[i]] = order[i-1]
	}
	if least == 0 && w.n > 1 {
		t = mend(w, t)
		t.Note = fmt.Sprintf("no path over the graph's links from root %d to all ranks was found; "+
			"this is a tree with few branches", root)
	}
	return t
}

// Star returns the tree in which all ranks are children of the root: the
// parameter server. Where the root lacks links, the shallowest spanning tree
// comes back, and its Note says so.
func Star(g *topo.Graph, root int) topo.Tree {
	w := newNet(g)
	t := shallowest(w, root)
	if far := g.Ranks - 1 - len(w.near[root]); far > 0 {
		t.Note = fmt.Sprintf("root %d has no link with %d of %d ranks; this is the shallowest spanning tree",
			root, far, g.Ranks-1)
	}
	return t
}
