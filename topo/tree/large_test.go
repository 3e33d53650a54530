package tree

import (
	"testing"

	"github.com/treerun/treerun/topo"
)

// On a graph of hosts, the trees for more ranks than the exact search can take
// cross between hosts as seldom as they can.
func TestKLStaysInsideGroups(t *testing.T) {
	for _, c := range []struct{ k, m int }{{2, 16}, {8, 8}, {64, 8}} {
		g := groups(c.k, c.m)
		tr := klTree(g, c.m+1, 0, klAttempts)
		checkTree(t, g, tr, c.m+1)
		if tr.Round == nil {
			t.Errorf("%d groups of %d: not balanced", c.k, c.m)
		}
		if got, want := weight(g, tr), float64(10*c.k*(c.m-1)+c.k-1); got != want {
			t.Errorf("%d groups of %d: weight %v, want %v", c.k, c.m, got, want)
		}
	}
}

// Large graphs of every shape get a spanning tree.
func TestKLLarge(t *testing.T) {
	hypercube := &topo.Graph{Ranks: 64}
	grid := &topo.Graph{Ranks: 60}
	for v := range 64 {
		for bit := 1; bit < 64; bit *= 2 {
			if v&bit == 0 {
				hypercube.Links = append(hypercube.Links, topo.Link{A: v, B: v | bit, GBytesPerSecond: 2})
			}
		}
	}
	for v := range 60 {
		for _, step := range []int{1, 6} {
			if u := v + step; u < 60 && (step == 6 || u%6 != 0) {
				grid.Links = append(grid.Links, topo.Link{A: v, B: u, GBytesPerSecond: 1})
			}
		}
	}
	for _, c := range []struct {
		name     string
		g        *topo.Graph
		balanced bool
	}{
		{"hypercube", hypercube, true}, {"grid", grid, false}, {"path", path(3000), false}, {"star", star(3000), false},
		{"uniform", topo.UniformGraph(33), true},
	} {
		for _, root := range []int{0, 1, c.g.Ranks - 1} {
			tr := klTree(c.g, root, 0, klAttempts)
			checkTree(t, c.g, tr, root)
			if (tr.Round != nil) != c.balanced {
				t.Errorf("%s from %d: balanced is %v: %s", c.name, root, tr.Round != nil, tr.Note)
			}
		}
	}
}
