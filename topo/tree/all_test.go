package tree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
)

// Uniform is balanced for every n and root; over all roots every link is used
// exactly twice and every rank has n-1 children.
func TestUniformSpreadsEvenly(t *testing.T) {
	for n := 1; n <= 70; n++ {
		uses := topo.Matrix{N: n, V: make([]float64, n*n)}
		children := make([]int, n)
		for root := range n {
			tr := Uniform(n, root)
			if tr.Root != root || tr.Round == nil {
				t.Fatalf("n=%d root %d: %v\n%v", n, root, tr.Validate(n), tr)
			}
			for v, p := range tr.Parent {
				if p >= 0 {
					uses.Set(v, p, uses.At(v, p)+1)
					children[p]++
				}
			}
		}
		for a := range n {
			if children[a] != n-1 {
				t.Fatalf("n=%d: rank %d has %d children, want %d", n, a, children[a], n-1)
			}
			for b := range a {
				if uses.At(a, b) != 2 {
					t.Fatalf("n=%d: link %d-%d is used %v times, want 2", n, a, b, uses.At(a, b))
				}
			}
		}
	}
}

func TestAll(t *testing.T) {
	uniform := All(topo.UniformGraph(6))
	for r, tr := range uniform {
		if got, want := fmt.Sprint(tr), fmt.Sprint(Uniform(6, r)); got != want {
			t.Errorf("root %d of a uniform graph:\n%swant\n%s", r, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 1, 8)
		trees := All(g)
		if len(trees) != g.Ranks {
			t.Fatalf("%d trees for %d roots", len(trees), g.Ranks)
		}
		for r, tr := range trees {
			checkTree(t, g, tr, r)
		}
	})
}

// The penalty keeps the trees of different roots off each other's links:
// without it they share the heaviest ones. On the DGX-1V MXNet's own trees put
// 4 trees on its busiest single NVLink, or 8 on a double one.
func TestPenaltySpreadsLoad(t *testing.T) {
	g := dgx1v()
	alone, err := Exact(g)
	if err != nil {
		t.Fatal(err)
	}
	all := All(g)
	single := 25.0
	if with, without := busiest(g, all)*single, busiest(g, alone)*single; with > 3 || with >= without {
		t.Errorf("the busiest link carries %v trees per NVLink with the penalty, %v without, want 3 and more", with, without)
	}
}

// Rates that differ by the noise of a measurement must not spoil the even load
// of equal links; a link that is really slow must.
func TestAllOfMeasuredRates(t *testing.T) {
	g := topo.UniformGraph(8)
	for i := range g.Links {
		g.Links[i].GBytesPerSecond += float64(i*7%len(g.Links)) / 200
	}
	trees := All(g)
	for r, tr := range trees {
		if fmt.Sprint(tr) != fmt.Sprint(Uniform(8, r)) {
			t.Fatalf("root %d of a nearly uniform graph has another tree:\n%v", r, tr)
		}
	}
	g.Links[3].GBytesPerSecond = 0.1
	trees = All(g)
	for _, tr := range trees {
		if slow := g.Links[3]; tr.Parent[slow.A] == slow.B || tr.Parent[slow.B] == slow.A {
			t.Fatalf("a tree uses the slow link %d-%d:\n%v", slow.A, slow.B, tr)
		}
	}
}

// Cut is not empty where links times trees are many, and only there.
func TestCut(t *testing.T) {
	full := func(n int) *topo.Graph {
		g := &topo.Graph{Ranks: n}
		for b := range n {
			for a := range b {
				g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: float64(1 + (a+b)%3)})
			}
		}
		return g
	}
	path := &topo.Graph{Ranks: 500}
	for b := 1; b < path.Ranks; b++ {
		path.Links = append(path.Links, topo.Link{A: b - 1, B: b, GBytesPerSecond: 1})
	}
	for _, c := range []struct {
		g    *topo.Graph
		want string
	}{
		{full(8), ""},
		{full(64), ""},
		{topo.UniformGraph(300), ""},
		{path, "cut short for 500 trees of 499 links"},
		{full(200), "cut short"},
		{full(600), "cut short"},
	} {
		if got := Cut(c.g); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%d ranks, %d links: %q, want %q", c.g.Ranks, len(c.g.Links), got, c.want)
		}
	}
}
