package pack

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
)

// patentTree is S3 to S12 of the patent as it is written, with sorted lists and
// all distances from scratch: links by number, or nil. Rates that are the same
// but for rounding count as such.
func patentTree(g *topo.Graph, left, delay []float64, start int, height, r float64) []int {
	inside := map[int]bool{start: true}
	var tree []int
	for len(inside) < g.Ranks {
		var ec []int // S4
		for i, l := range g.Links {
			if inside[l.A] != inside[l.B] && left[i] >= r*(1-same) && left[i] > 0 {
				ec = append(ec, i)
			}
		}
		slices.SortFunc(ec, func(i, j int) int { return cmp.Or(cmp.Compare(left[j], left[i]), i-j) })
		ei, di := -1, 2*height // S5
		for _, ej := range ec {
			if ei >= 0 && left[ei] > left[ej] { // S8
				break
			}
			dj := treeDiameter(g, append(slices.Clone(tree), ej), delay) // S9
			if ei < 0 && dj <= di || ei >= 0 && dj < di {                // S10
				ei, di = ej, dj
			}
		}
		if ei < 0 { // S11
			return nil
		}
		tree = append(tree, ei)
		inside[g.Links[ei].A], inside[g.Links[ei].B] = true, true
	}
	slices.Sort(tree)
	return tree
}

// treeDiameter is the largest distance between two ranks that the links join.
func treeDiameter(g *topo.Graph, links []int, delay []float64) float64 {
	n := g.Ranks
	d := make([]float64, n*n)
	for i := range d {
		d[i] = math.Inf(1)
	}
	for _, i := range links {
		a, b := g.Links[i].A, g.Links[i].B
		d[a*n+b], d[b*n+a], d[a*n+a], d[b*n+b] = delay[i], delay[i], 0, 0
	}
	most := 0.0
	for k := range n {
		for a := range n {
			for b := range n {
				d[a*n+b] = min(d[a*n+b], d[a*n+k]+d[k*n+b])
			}
		}
	}
	for _, v := range d {
		if !math.IsInf(v, 1) {
			most = max(most, v)
		}
	}
	return most
}

// The greedy search takes the very links that the patent's text takes.
func TestGreedyIsThePatent(t *testing.T) {
	failed, grown := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 2, 8)
		g.Ports = nil
		w, err := newNetwork(g, -1)
		if err != nil {
			t.Fatal(err)
		}
		by := rapid.Bool().Draw(t, "delay")
		height := float64(rapid.IntRange(1, 8).Draw(t, "H"))
		r := float64(rapid.IntRange(0, 2).Draw(t, "r"))
		s := newGreedy(w, w.delays(by), height, r, math.Inf(1), 1)
		s.left = slices.Clone(w.Caps)
		for start := range g.Ranks {
			want := patentTree(g, s.left, s.delay, start, height, r)
			got, ok := s.grow(start)
			if want == nil {
				failed++
				if ok {
					t.Fatalf("start %d: tree %v, the text finds none", start, got.links())
				}
				continue
			}
			_, h := w.center(fromLinks(w, want), s.delay)
			if h > height*(1+1e-9) { // within 2H, and still too high: the trap
				if ok {
					t.Fatalf("start %d: a tree of height %v, want at most %v", start, h, height)
				}
				continue
			}
			grown++
			if !ok {
				t.Fatalf("start %d: no tree, the text finds %v", start, want)
			}
			for i, l := range got.links() {
				if int(l) != want[i] {
					t.Fatalf("start %d: links %v, the text takes %v", start, got.links(), want)
				}
			}
		}
	})
	if failed == 0 || grown == 0 {
		t.Errorf("%d trees failed, %d were grown: the sample shows too little", failed, grown)
	}
}

// fromLinks makes a tree of its links.
func fromLinks(w *network, list []int) arcs {
	cost := slices.Repeat([]float64{1}, len(w.Takes))
	for _, l := range list {
		cost[2*l], cost[2*l+1] = 0, 0
	}
	return w.prim(0, cost)
}

// A diameter within 2H does not make the height H when delays differ: one link
// of delay 2H has its center inside.
func TestGreedyChecksTheHeight(t *testing.T) {
	g := &topo.Graph{Ranks: 2, Links: []topo.Link{{A: 0, B: 1, GBytesPerSecond: 1, LatencyUs: 8}}}
	w, err := newNetwork(g, -1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		height float64
		want   bool
	}{{8, true}, {4, false}} {
		s := newGreedy(w, w.delays(true), c.height, 0, math.Inf(1), 1)
		if f := s.trees(newPool(w)); (len(f.rates) > 0) != c.want {
			t.Errorf("height %v: found %v, want a tree: %v", c.height, f.rates, c.want)
		}
	}
}

// Every quantum of the greedy search is a packing, and small ones come near to
// the bound; equal trees are one.
func TestGreedyQuality(t *testing.T) {
	for _, g := range []*topo.Graph{dgx1v(), dgx1p(), xgmi8(), complete("k8", 8, 1), barbell3()} {
		r, err := Pack(g, BothWays, Options{Greedy: true})
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, g, r)
		if r.Ratio < 0.9 {
			t.Errorf("%s: %.3f of the bound", g.Name, r.Ratio)
		}
		t.Logf("%s: %.3f of the bound with %d trees", g.Name, r.Ratio, len(r.Trees))
	}
}

// With a least rate the packing is no slower than the greedy search's, all of
// whose trees have that rate: in random meshes, each a ring and other links.
func TestLeastRateBeatsGreedy(t *testing.T) {
	const sites = 20
	for seed := uint64(1); seed < 4; seed++ {
		from := rand.New(rand.NewPCG(seed, sites))
		g := ring(sites)
		for b := range sites {
			for a := range b - 1 {
				if b-a != sites-1 && from.IntN(3) == 0 {
					g.Links = append(g.Links, topo.Link{A: a, B: b})
				}
			}
		}
		for i := range g.Links {
			g.Links[i].GBytesPerSecond = float64(1 + from.IntN(10))
		}
		bound, err := FindBound(g, BothWays)
		if err != nil {
			t.Fatal(err)
		}
		for part := 2; part < 8; part++ {
			o := Options{MinRate: bound.Rate / float64(part)}
			exact, err := Pack(g, BothWays, o)
			if err != nil {
				t.Fatal(err)
			}
			o.Greedy = true
			greedy, err := Pack(g, BothWays, o)
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, g, exact)
			if greedy.Note == "" && exact.Rate < greedy.Rate*(1-1e-9) {
				t.Errorf("seed %d: %v of trees of at least %v, the greedy search has %v", seed, exact.Rate, o.MinRate, greedy.Rate)
			}
		}
	}
}
