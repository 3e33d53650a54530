package tree

import (
	"testing"

	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
)

// On a graph of hosts, the trees for more ranks than the exact search can take
// cross between hosts as seldom as they can.
func TestGreedyStaysInsideGroups(t *testing.T) {
	for _, c := range []struct{ k, m int }{{2, 16}, {8, 8}, {3, 8}, {64, 8}} {
		g := groups(c.k, c.m)
		tr, err := Greedy(g, c.m+1)
		if err != nil {
			t.Fatal(err)
		}
		checkTree(t, g, tr, c.m+1)
		if !tr.IsBalanced() {
			t.Errorf("%d groups of %d: not balanced", c.k, c.m)
		}
		if got, want := tr.Weight(g), float64(10*c.k*(c.m-1)+c.k-1); got != want {
			t.Errorf("%d groups of %d: weight %v, want %v", c.k, c.m, got, want)
		}
	}
}

// Greedy makes a spanning tree of every connected graph, never a heavier
// balanced one than Exact, and on complete graphs always a balanced one.
func TestGreedyAgainstExact(t *testing.T) {
	sum, runs := 0.0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 1, 12)
		root := rapid.IntRange(0, g.Ranks-1).Draw(t, "root")
		tr, err := Greedy(g, root)
		if err != nil {
			t.Fatal(err)
		}
		checkTree(t, g, tr, root)
		best, err := Exact(g, root)
		if err != nil {
			t.Fatal(err)
		}
		complete := len(g.Links) == g.Ranks*(g.Ranks-1)/2
		switch {
		case tr.IsBalanced() && (!best.IsBalanced() || tr.Weight(g) > best.Weight(g)):
			t.Fatalf("heavier than the heaviest\n%v%v", tr, best)
		case complete && !tr.IsBalanced():
			t.Fatalf("not balanced on a complete graph\n%v", tr)
		case complete && g.Ranks > 1:
			sum += tr.Weight(g) / best.Weight(g)
			runs++
		}
	})
	if ratio := sum / float64(runs); ratio < 0.95 {
		t.Errorf("Greedy reaches %.3f of Exact on %d complete graphs, want 0.95", ratio, runs)
	}
}

// Large graphs of every shape get a spanning tree.
func TestGreedyLarge(t *testing.T) {
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
			tr, err := Greedy(c.g, root)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			checkTree(t, c.g, tr, root)
			if tr.IsBalanced() != c.balanced {
				t.Errorf("%s from %d: balanced is %v: %s", c.name, root, tr.IsBalanced(), tr.Note)
			}
		}
	}
}
