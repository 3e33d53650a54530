package tree

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// maxMatrix is the number of ranks up to which rates are looked up in a table
// of all pairs: 32 MiB of it.
const maxMatrix = 1 << 11

// net is a graph as the builders use it: rates that they may change, quick to
// look up by pair and by rank.
type net struct {
	n     int
	near  [][]topo.Neighbour // by rank, rising
	table topo.Matrix        // the same rates; empty above maxMatrix ranks
}

func newNet(g *topo.Graph) *net {
	w := &net{n: g.Ranks, near: g.Neighbours()}
	if g.Ranks <= maxMatrix {
		w.table = g.Rates()
	}
	return w
}

// at returns the rate between u and v, 0 without a link.
func (g *net) at(u, v int) float64 {
	if g.table.N > 0 {
		return g.table.At(u, v)
	}
	if e := g.end(u, v); e != nil {
		return e.GBytesPerSecond
	}
	return 0
}

// end returns u's end of its link with v, nil without one.
func (g *net) end(u, v int) *topo.Neighbour {
	i, ok := slices.BinarySearchFunc(g.near[u], v, func(e topo.Neighbour, v int) int { return e.Rank - v })
	if !ok {
		return nil
	}
	return &g.near[u][i]
}

// set changes the rate of the link between u and v.
func (g *net) set(u, v int, rate float64) {
	g.end(u, v).GBytesPerSecond = rate
	g.end(v, u).GBytesPerSecond = rate
	if g.table.N > 0 {
		g.table.Set(u, v, rate)
	}
}

// links returns the links, quickest first, equals by rank.
func (g *net) links() (list []topo.Link) {
	for a, near := range g.near {
		for _, e := range near {
			if a < e.Rank {
				list = append(list, topo.Link{A: a, B: e.Rank, GBytesPerSecond: e.GBytesPerSecond})
			}
		}
	}
	slices.SortStableFunc(list, func(x, y topo.Link) int { return cmp.Compare(y.GBytesPerSecond, x.GBytesPerSecond) })
	return list
}

// weight is the total rate of a tree's links.
func (g *net) weight(t topo.Tree) float64 {
	sum := 0.0
	for v, p := range t.Parent {
		if p >= 0 {
			sum += g.at(v, p)
		}
	}
	return sum
}

// mend replaces the links of t that g does not have by the quickest ones that
// join the pieces, and turns the pieces so that they hang from the root.
func mend(g *net, t topo.Tree) topo.Tree {
	kept := topo.Graph{Ranks: g.n}
	joined := topo.NewSets(g.n)
	for v, p := range t.Parent {
		if p >= 0 && g.at(v, p) > 0 && joined.Join(v, p) {
			kept.Links = append(kept.Links, topo.Link{A: v, B: p})
		}
	}
	missing := g.n - 1 - len(kept.Links)
	if missing == 0 {
		return t
	}
	for _, l := range g.links() {
		if joined.Join(l.A, l.B) {
			kept.Links = append(kept.Links, l)
		}
	}
	out, _ := shallowest(newNet(&kept), t.Root)
	out.Note = fmt.Sprintf("the graph lacks %d of the tree's %d links; the quickest others that "+
		"keep it connected stand in", missing, g.n-1)
	return out
}

// shallowest returns a spanning tree in which every rank is as near to the
// root as the graph allows, over the fastest such link, to the lowest rank
// among equals; and the number of links between every rank and the root. g
// must be connected.
func shallowest(g *net, root int) (t topo.Tree, depth []int) {
	t = topo.Tree{Root: root, Parent: make([]int, g.n)}
	depth = make([]int, g.n)
	for v := range depth {
		depth[v] = -1
		t.Parent[v] = -1
	}
	depth[root] = 0
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		u := queue[0]
		for _, e := range g.near[u] {
			v := e.Rank
			switch {
			case depth[v] < 0:
				depth[v] = depth[u] + 1
				t.Parent[v] = u
				queue = append(queue, v)
			case depth[v] == depth[u]+1:
				old := g.at(v, t.Parent[v])
				if w := g.at(v, u); w > old || w == old && u < t.Parent[v] {
					t.Parent[v] = u
				}
			}
		}
	}
	return t, depth
}
