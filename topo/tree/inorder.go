package tree

import (
	"math"

	"github.com/treerun/treerun/topo"
)

// InOrder returns up to count trees in which ranks can add one after the other, from rank
// 0 on: neighboring ranks are the children of one among them, which also has the sum of
// those before, so that only sums travel. Each rank's use of a link makes it less
// attractive to later trees. There are none where links do not allow it.
func InOrder(g *topo.Graph, count int) []topo.Tree {
	cost := g.Rates() // of using the link once more; +Inf: there is none
	for i, rate := range cost.V {
		cost.V[i] = 1 / rate
	}
	for v := range g.Ranks {
		cost.Set(v, v, 0)
	}
	var trees []topo.Tree
	used := make(map[[2]int32]float64)
	for range count {
		t, ok := inOrder(cost)
		if !ok {
			break
		}
		trees = append(trees, t)
		for v, up := range t.Links() {
			k := used[topo.Pair(v, up)] + 1
			used[topo.Pair(v, up)] = k
			cost.Set(v, up, cost.At(v, up)*((k+1)/k))
		}
	}
	return trees
}

// inOrder finds the tree of the least cost: best[to][v] is that of the ranks below to, of
// which v has the sum, and after[to][v] that with the link from there to v.
func inOrder(cost topo.Matrix) (topo.Tree, bool) {
	n := cost.N
	type choice struct {
		cost     float64
		from, by int // the first rank of the last group; the rank that sends for the ranks before it
	}
	best, after := make([][]choice, n+1), make([][]choice, n+1)
	for to := range n + 1 {
		best[to], after[to] = make([]choice, n), make([]choice, n)
		for v := range n {
			best[to][v].cost, after[to][v] = math.Inf(1), choice{cost: math.Inf(1)}
			if to == 0 {
				after[0][v] = choice{by: -1}
			}
			group := 0.0
			for from := to - 1; from >= 0; from-- {
				group += cost.At(from, v)
				if c := group + after[from][v].cost; v >= from && v < to && c < best[to][v].cost {
					best[to][v] = choice{c, from, after[from][v].by}
				}
			}
		}
		for v := to; v < n; v++ {
			for u := range to {
				if c := best[to][u].cost + cost.At(u, v); c < after[to][v].cost {
					after[to][v] = choice{cost: c, by: u}
				}
			}
		}
	}
	t := topo.Tree{Parent: make([]int, n)}
	for v := range n {
		if best[n][v].cost < best[n][t.Root].cost {
			t.Root = v
		}
	}
	for to, v, up := n, t.Root, -1; to > 0; {
		c := best[to][v]
		for r := c.from; r < to; r++ {
			t.Parent[r] = v
		}
		t.Parent[v] = up
		to, v, up = c.from, c.by, v
	}
	return t, !math.IsInf(best[n][t.Root].cost, 1)
}
