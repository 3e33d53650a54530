package pack

import (
	"fmt"
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// links makes a graph of pairs of digits, each a link of the same rate.
func links(g *topo.Graph, rate float64, pairs ...string) *topo.Graph {
	for _, p := range pairs {
		g.Links = append(g.Links, topo.Link{A: int(p[0] - '0'), B: int(p[1] - '0'), GBytesPerSecond: rate})
	}
	return g
}

// dgx1v is the NVLink graph of a DGX-1 with V100, or p3.16xlarge.
func dgx1v() *topo.Graph {
	g := links(&topo.Graph{Name: "dgx1v", Ranks: 8}, 50, "03", "04", "12", "15", "23", "47", "56", "67")
	return links(g, 25, "01", "02", "13", "26", "37", "45", "46", "57")
}

// dgx1p is the NVLink graph of a DGX-1 with P100: two full quads, joined.
func dgx1p() *topo.Graph {
	return links(&topo.Graph{Name: "dgx1p", Ranks: 8}, 20,
		"01", "02", "03", "12", "13", "23", "45", "46", "47", "56", "57", "67", "04", "15", "26", "37")
}

// subset keeps the given ranks, renamed in this order.
func subset(g *topo.Graph, ranks ...int) *topo.Graph {
	s := &topo.Graph{Name: fmt.Sprint(g.Name, ranks), Ranks: len(ranks)}
	for _, l := range g.Links {
		a, b := slices.Index(ranks, l.A), slices.Index(ranks, l.B)
		if a >= 0 && b >= 0 {
			l.A, l.B = a, b
			s.Links = append(s.Links, l)
		}
	}
	return s
}

func complete(name string, n int, rate float64) *topo.Graph {
	g := topo.UniformGraph(n)
	g.Name = name
	for i := range g.Links {
		g.Links[i].GBytesPerSecond = rate
	}
	return g
}

func ring(n int) *topo.Graph {
	g := &topo.Graph{Name: fmt.Sprint("ring", n), Ranks: n}
	for v := range n {
		g.Links = append(g.Links, topo.Link{A: v, B: (v + 1) % n, GBytesPerSecond: 1})
	}
	return g
}

func path(n int) *topo.Graph {
	g := ring(n)
	g.Name = fmt.Sprint("path", n)
	g.Links = g.Links[:n-1]
	return g
}

// xgmi8 is the complete graph without four links that have no end in common.
func xgmi8() *topo.Graph {
	g := complete("xgmi8", 8, 50)
	g.Links = slices.DeleteFunc(g.Links, func(l topo.Link) bool { return l.A^1 == l.B })
	return g
}

// barbell3 is two complete graphs of six ranks, joined by one link of rate 3.
func barbell3() *topo.Graph {
	g := &topo.Graph{Name: "barbell3", Ranks: 12}
	for a := range 6 {
		for b := range a {
			g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: 1},
				topo.Link{A: 6 + a, B: 6 + b, GBytesPerSecond: 1})
		}
	}
	g.Links = append(g.Links, topo.Link{A: 0, B: 6, GBytesPerSecond: 3})
	return g
}

// slowLeaf is seven ranks with fast links and one that hangs on a slow one.
func slowLeaf() *topo.Graph {
	g := complete("slow_leaf", 7, 10)
	g.Ranks = 8
	g.Links = append(g.Links, topo.Link{A: 0, B: 7, GBytesPerSecond: 1})
	return g
}

// cards is a network that does not block, and one card per rank.
func cards(rates ...float64) *topo.Graph {
	g := complete("cards", len(rates), 1000)
	for v, r := range rates {
		g.Ports = append(g.Ports, topo.Port{Name: fmt.Sprint("card of host ", v), Ranks: []int{v}, GBytesPerSecond: r})
	}
	return g
}

// drawGraph draws a connected graph: a random spanning tree and each other link
// with a chance; then ports of all kinds, sometimes.
func drawGraph(t *rapid.T, least, most int) *topo.Graph {
	n := rapid.IntRange(least, most).Draw(t, "n")
	density := rapid.IntRange(0, 10).Draw(t, "density")
	rate := rapid.SampledFrom([]*rapid.Generator[float64]{
		rapid.Just(1.0),
		rapid.Map(rapid.IntRange(1, 3), func(v int) float64 { return float64(v) }),
		rapid.Map(rapid.Float64Range(-2, 2), func(v float64) float64 { return math.Pow(10, v) }),
	}).Draw(t, "rates")
	g := &topo.Graph{Ranks: n}
	for b := range n {
		parent := rapid.IntRange(0, max(0, b-1)).Draw(t, "parent")
		for a := range b {
			if a == parent || rapid.IntRange(1, 10).Draw(t, "link") <= density {
				g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: rate.Draw(t, "rate"),
					LatencyUs: float64(rapid.IntRange(0, 3).Draw(t, "latency"))})
			}
		}
	}
	if n < 2 || rapid.Bool().Draw(t, "no ports") {
		return g
	}
	for i := range rapid.IntRange(1, n).Draw(t, "ports") {
		ranks := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, n-1, rapid.ID).Draw(t, "port")
		slices.Sort(ranks)
		g.Ports = append(g.Ports, topo.Port{Name: fmt.Sprint(i), Ranks: ranks, GBytesPerSecond: rate.Draw(t, "port rate")})
	}
	if rapid.Bool().Draw(t, "port costs") {
		for i := range g.Links {
			g.Links[i].PortCost = rapid.SampledFrom([]float64{0, 1, 1.2, 3}).Draw(t, "port cost")
		}
	}
	return g
}

// tester is a *testing.T or a *rapid.T.
// heightUs is the latency from the root of a tree to the farthest rank.
func heightUs(g *topo.Graph, t topo.Tree) (most float64) {
	index := g.LinkIndex()
	for v := range t.Parent {
		us := 0.0
		for p := t.Parent[v]; p >= 0; v, p = p, t.Parent[p] {
			us += g.Links[index[topo.Pair(v, p)]].LatencyUs
		}
		most = max(most, us)
	}
	return most
}

type tester interface {
	Helper()
	Fatalf(string, ...any)
}

// checkResult checks, without any of the package's own means, that the trees
// are spanning trees over links of g, that no link and no port is overbooked in
// either direction, and that the sums are right.
func checkResult(t tester, g *topo.Graph, r *Result) {
	t.Helper()
	n := len(r.Trees)
	if n == 0 || len(r.Rates) != n {
		t.Fatalf("%d trees, %d rates", n, len(r.Rates))
	}
	up, down := topo.Matrix{N: g.Ranks, V: make([]float64, g.Ranks*g.Ranks)}, 0.0
	for i, tr := range r.Trees {
		if err := tr.Validate(g.Ranks); err != nil {
			t.Fatalf("tree %d: %v", i, err)
		}
		if v := testutil.MissingLinks(g, tr); v >= 0 {
			t.Fatalf("tree %d: rank %d has no link to its parent", i, v)
		}
		if !(r.Rates[i] > 0) {
			t.Fatalf("tree %d has rate %v", i, r.Rates[i])
		}
		down += r.Rates[i]
		for v, p := range tr.Parent {
			if p < 0 {
				continue
			}
			up.V[p*g.Ranks+v] += r.Rates[i] // from the parent to v
			if r.Bound.Root < 0 {
				up.V[v*g.Ranks+p] += r.Rates[i]
			} else if tr.Root != r.Bound.Root {
				t.Fatalf("tree %d has root %d, want %d", i, tr.Root, r.Bound.Root)
			}
		}
	}
	const slack = 1 + 1e-9
	for _, l := range g.Links {
		if got := max(up.At(l.A, l.B), up.At(l.B, l.A)); got > l.GBytesPerSecond*slack {
			t.Fatalf("link %d-%d carries %v of %v GB/s", l.A, l.B, got, l.GBytesPerSecond)
		}
	}
	for _, l := range g.Links { // what a port carries for it
		if l.PortCost > 0 {
			up.V[l.A*g.Ranks+l.B] *= l.PortCost
			up.V[l.B*g.Ranks+l.A] *= l.PortCost
		}
	}
	for _, p := range g.Ports {
		out, in := 0.0, 0.0
		for a := range g.Ranks {
			for b := range g.Ranks {
				switch fromIn, toIn := slices.Contains(p.Ranks, a), slices.Contains(p.Ranks, b); {
				case fromIn && !toIn:
					out += up.At(a, b)
				case !fromIn && toIn:
					in += up.At(a, b)
				}
			}
		}
		if max(out, in) > p.GBytesPerSecond*slack {
			t.Fatalf("port %q carries %v and %v of %v GB/s", p.Name, out, in, p.GBytesPerSecond)
		}
	}
	if g.Ranks > 1 && (math.Abs(down-r.Rate) > 1e-9*down || math.Abs(r.Ratio-r.Rate/r.Bound.Rate) > 1e-9) {
		t.Fatalf("rate %v, ratio %v; the trees have %v, the bound is %v", r.Rate, r.Ratio, down, r.Bound.Rate)
	}
}

func about(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b)) }
