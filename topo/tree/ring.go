package tree

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Rings returns rings that can be used at the same time, each as the path from its first rank to its
// last, which has a link to the first: NCCL's ring. Two ranks make a ring of their one link. A path begins
// with rank 0, and goes the way on which the second rank is the lower one. Its rate, that of its slowest
// link in both directions, is 0 for one rank.
//
// First comes one whose slowest link is quick, and of those one of a large
// total rate, then the best of what the links have left
// when the rings before have taken their rates, as NCCL makes its channels,
// until no ring is left or there are most of them. It is a heuristic: orders that grow from
// rank to rank over the quickest link, and then exchange links (2-opt). On a DGX-1V that is a ring
// of the double NVLinks and one of the single ones. The first rings decide what
// is left, so the sum is not always the largest. Ports are not looked at.
func Rings(g *topo.Graph, most int) (paths []topo.Tree, rates []float64, err error) {
	left := *g
	for len(paths) < most {
		order, least := walk(newNet(&left), -1)
		if least == 0 && g.Ranks > 1 {
			break
		}
		paths, rates = append(paths, along(order)), append(rates, least)
		if g.Ranks < 3 {
			break
		}
		left.Links = without(left.Links, order, least)
	}
	if len(paths) == 0 {
		return nil, nil, fmt.Errorf("tree: found no ring over the graph's links that visits all %d ranks", g.Ranks)
	}
	return paths, rates, nil
}

// along returns the tree that is a path through ranks in their order.
func along(order []int) topo.Tree {
	t := topo.Tree{Root: order[0], Parent: slices.Repeat([]int{-1}, len(order))}
	for i, v := range order[1:] {
		t.Parent[v] = order[i]
	}
	return t
}

// without returns the links less the rate that a ring takes of its own.
func without(links []topo.Link, order []int, rate float64) []topo.Link {
	place := make([]int, len(order))
	for i, v := range order {
		place[v] = i
	}
	var left []topo.Link
	for _, l := range links {
		before := l.GBytesPerSecond
		if d := (place[l.A] - place[l.B] + len(place)) % len(place); d == 1 || d == len(place)-1 {
			l.GBytesPerSecond -= rate
		}
		if l.GBytesPerSecond > 1e-9*before {
			left = append(left, l)
		}
	}
	return left
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

// Chain returns the tree that is a single path from the root, as NCCL uses
// inside a host, found as Rings finds a ring. Where no path from the root
// to all ranks is found, the quickest links that keep the tree connected stand
// in for the missing ones, and its Note says so.
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
