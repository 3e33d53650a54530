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
// look up.
type net struct {
	n     int
	near  [][]int          // by rank: those it has links with, rising
	table topo.Matrix      // the rates; empty above maxMatrix ranks
	index map[[2]int32]int // by pair of ranks: the place of its rate in rates
	rates []float64
}

func newNet(g *topo.Graph) *net {
	w := &net{n: g.Ranks, near: make([][]int, g.Ranks)}
	for _, l := range g.Links {
		w.near[l.A] = append(w.near[l.A], l.B)
		w.near[l.B] = append(w.near[l.B], l.A)
		w.rates = append(w.rates, l.GBytesPerSecond)
	}
	for _, list := range w.near {
		slices.Sort(list)
	}
	if g.Ranks <= maxMatrix {
		w.table = g.Rates()
	} else {
		w.index = g.LinkIndex()
	}
	return w
}

// at returns the rate between u and v, 0 without a link.
func (g *net) at(u, v int) float64 {
	if g.index == nil {
		return g.table.At(u, v)
	}
	if i, has := g.index[topo.Pair(u, v)]; has {
		return g.rates[i]
	}
	return 0
}

// set changes the rate of the link between u and v.
func (g *net) set(u, v int, rate float64) {
	if g.index == nil {
		g.table.Set(u, v, rate)
	} else {
		g.rates[g.index[topo.Pair(u, v)]] = rate
	}
}

// links returns the links, quickest first, equals by rank.
func (g *net) links() (list []topo.Link) {
	for a, near := range g.near {
		for _, b := range near {
			if a < b {
				list = append(list, topo.Link{A: a, B: b, GBytesPerSecond: g.at(a, b)})
			}
		}
	}
	slices.SortStableFunc(list, func(x, y topo.Link) int { return cmp.Compare(y.GBytesPerSecond, x.GBytesPerSecond) })
	return list
}

// weight is the total rate of a tree's links.
func (g *net) weight(t topo.Tree) float64 {
	sum := 0.0
	for v, p := range t.Links() {
		sum += g.at(v, p)
	}
	return sum
}

// mend replaces the links of t that g does not have by the quickest ones that
// join the pieces, and turns the pieces so that they hang from the root.
func mend(g *net, t topo.Tree) topo.Tree {
	present := topo.Graph{Ranks: g.n}
	joined := topo.NewSets(g.n)
	for v, p := range t.Parent {
		if p >= 0 && g.at(v, p) > 0 && joined.Join(v, p) {
			present.Links = append(present.Links, topo.Link{A: v, B: p})
		}
	}
	missing := g.n - 1 - len(present.Links)
	if missing == 0 {
		return t
	}
	for _, l := range g.links() {
		if joined.Join(l.A, l.B) {
			present.Links = append(present.Links, l)
		}
	}
	out := shallowest(newNet(&present), t.Root)
	out.Note = fmt.Sprintf("the graph lacks %d of the tree's %d links; the quickest others that "+
		"keep it connected stand in", missing, g.n-1)
	return out
}

// shallowest returns a spanning tree in which every rank is as near to the
// root as the graph allows, over the fastest such link, to the lowest rank
// among equals. g must be connected.
func shallowest(g *net, root int) topo.Tree {
	t := topo.Tree{Root: root, Parent: make([]int, g.n)}
	depth := make([]int, g.n) // links between every rank and the root
	for v := range depth {
		depth[v] = -1
		t.Parent[v] = -1
	}
	depth[root] = 0
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		u := queue[0]
		for _, v := range g.near[u] {
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
	return t
}
