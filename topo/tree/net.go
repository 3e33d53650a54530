package tree

import (
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

// leastRate is where scale stops, so that a link stays a link.
const leastRate = 1e-200

// scale multiplies the rate of the link between u and v.
func (g *net) scale(u, v int, by float64) {
	g.set(u, v, max(g.at(u, v)*by, leastRate))
}

// set changes the rate of the link between u and v.
func (g *net) set(u, v int, rate float64) {
	g.end(u, v).GBytesPerSecond = rate
	g.end(v, u).GBytesPerSecond = rate
	if g.table.N > 0 {
		g.table.Set(u, v, rate)
	}
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
