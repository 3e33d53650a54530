package tree

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// Exact is as heavy as the heaviest of all balanced reduce trees. Where there
// is none, it is as heavy as the heaviest of one round more, then of two, and
// has no rounds.
func TestExactAgainstBruteForce(t *testing.T) {
	deeper := 0
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 1, 7)
		for root := range g.Ranks {
			tr, err := exactTree(g, root)
			if err != nil {
				t.Fatal(err)
			}
			checkTree(t, g, tr, root)
			if matchesBruteForce(t, g, tr) {
				deeper++
			}
		}
	})
	if deeper == 0 {
		t.Error("no graph needed more rounds: the sample shows too little")
	}
}

// matchesBruteForce fails the test if there is a better tree than tr; it
// reports whether there is none of as few rounds as a balanced tree has.
func matchesBruteForce(t *rapid.T, g *topo.Graph, tr topo.Tree) bool {
	least := topo.Rounds(g.Ranks)
	for rounds := least; rounds <= least+moreRounds; rounds++ {
		want := bruteForce(g.Rates(), tr.Root, rounds)
		if want == none {
			continue
		}
		if weight(g, tr) != want || (tr.Round != nil) != (rounds == least) {
			t.Fatalf("the best of all has %d rounds and weight %v, but got weight %v\n%v", rounds, want, weight(g, tr), tr)
		}
		return rounds > least
	}
	if !strings.Contains(tr.Note, "shallowest") {
		t.Fatalf("no tree of %d rounds exists, but got\n%v", least+moreRounds, tr)
	}
	return true
}

// checkTree checks the promises of every builder on every connected graph.
func checkTree(t interface{ Fatalf(string, ...any) }, g *topo.Graph, tr topo.Tree, root int) {
	if err := tr.Validate(g.Ranks); err != nil {
		t.Fatalf("%v: %v %v", err, tr.Parent, tr.Round)
	}
	if tr.Root != root {
		t.Fatalf("root %d, want %d", tr.Root, root)
	}
	if v := testutil.MissingLinks(g, tr); v >= 0 {
		t.Fatalf("no link from %d to its parent\n%v", v, tr)
	}
	if (tr.Round == nil) != (tr.Note != "") {
		t.Fatalf("a tree has rounds or a note: rounds %v, note %q", tr.Round, tr.Note)
	}
}

// Exact on larger graphs than rapid likes to draw: as heavy as the heaviest of
// all trees of as few rounds.
func TestExactSample(t *testing.T) {
	for seed := range uint64(90) {
		g := sample(5+int(seed%3), seed+1000)
		root := int(seed) % g.Ranks
		tr, err := exactTree(g, root)
		if err != nil {
			t.Fatal(err)
		}
		if want := bruteForce(g.Rates(), root, topo.Rounds(g.Ranks)); (tr.Round != nil) != (want != none) || want != none &&
			weight(g, tr) != want {
			t.Errorf("seed %d: weight %v, balanced %v; the best of all has %v", seed, weight(g, tr), (tr.Round != nil), want)
		}
	}
}

// The note describes the difference from the tree that was wanted.
func TestExactDeeper(t *testing.T) {
	for _, c := range []struct {
		name string
		g    *topo.Graph
		root int
		note string
	}{
		{"path of 4 from its end", path(4), 0,
			"no balanced reduce tree of 2 rounds exists from root 0; this is the best of 3 rounds"},
		{"star of 6 from its center", star(6), 0,
			"no balanced reduce tree of 3 rounds exists from root 0; this is the best of 5 rounds"},
		{"star of 9 from its center", star(9), 0,
			"no reduce tree of 6 rounds exists from root 0; this is the shallowest spanning tree"},
		{"path of 16 from its middle", path(16), 8,
			"no reduce tree of 6 rounds exists from root 8; this is the shallowest spanning tree"},
	} {
		tr, err := exactTree(c.g, c.root)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		checkTree(t, c.g, tr, c.root)
		if tr.Note != c.note {
			t.Errorf("%s: note %q, want %q", c.name, tr.Note, c.note)
		}
	}
}

func path(n int) *topo.Graph {
	g := &topo.Graph{Ranks: n}
	for v := 1; v < n; v++ {
		g.Links = append(g.Links, topo.Link{A: v - 1, B: v, GBytesPerSecond: 1})
	}
	return g
}

func star(n int) *topo.Graph {
	g := &topo.Graph{Ranks: n}
	for v := 1; v < n; v++ {
		g.Links = append(g.Links, topo.Link{A: 0, B: v, GBytesPerSecond: 1})
	}
	return g
}

// The 16 ranks of the largest exact search: four groups of four, quick inside,
// a little quicker between neighbors of a ring. The best tree stays inside
// groups for 12 of its links.
func TestExactSixteen(t *testing.T) {
	g := groups(4, 4)
	for root := range 2 {
		tr, err := exactTree(g, root)
		if err != nil {
			t.Fatal(err)
		}
		checkTree(t, g, tr, root)
		if got, want := weight(g, tr), 12*10+3*1.0; got != want {
			t.Errorf("weight %v, want %v\n%v", got, want, tr)
		}
	}
	if _, err := exactTree(topo.UniformGraph(17), 0); err == nil || !strings.Contains(err.Error(), "17 ranks") {
		t.Errorf("17 ranks: %v", err)
	}
}

// groups is a complete graph of k groups of m ranks: 10 GB/s inside, 1
// between.
func groups(k, m int) *topo.Graph {
	g := topo.UniformGraph(k * m)
	for i, l := range g.Links {
		if l.A/m == l.B/m {
			g.Links[i].GBytesPerSecond = 10
		}
	}
	return g
}

// The same graph with its links in another order gives the same trees.
func TestDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 1, 11)
		if rapid.Bool().Draw(t, "large") {
			g = drawGraph(t, MaxExact+1, 20)
		}
		h := *g
		h.Links = rapid.Permutation(g.Links).Draw(t, "links")
		a := All(g)
		b := All(&h)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("two orders of links, two sets of trees:\n%v%v", a, b)
		}
	})
}

func BenchmarkExact(b *testing.B) {
	for _, n := range []int{8, 12, 16} {
		g := groups(n/4, 4)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := exactTree(g, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAll(b *testing.B) {
	for _, n := range []int{8, 16, 32, 64} {
		g := groups(n/4, 4)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			for b.Loop() {
				All(g)
			}
		})
	}
}
