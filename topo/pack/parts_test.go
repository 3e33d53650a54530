package pack

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// cutsBound is the bound of an AllGather on a graph without ports, over all
// sets of ranks.
func cutsBound(g *topo.Graph) float64 {
	least := math.Inf(1)
	for set := 1; set < 1<<g.Ranks-1; set++ {
		into, outside := 0.0, 0
		for v := range g.Ranks {
			outside += 1 - set>>v&1
		}
		for _, l := range g.Links {
			if set>>l.A&1 != set>>l.B&1 {
				into += l.GBytesPerSecond
			}
		}
		least = min(least, into*float64(g.Ranks)/float64(outside))
	}
	return least
}

// checkParts checks the promises of packed trees: valid trees, as much rate from every root, no direction of a link or
// port overbooked, a proof that adds up.
func checkParts(t *testing.T, g *topo.Graph, r *Result) {
	t.Helper()
	carried := map[[2]int]float64{}
	from := make([]float64, g.Ranks)
	for i, tree := range r.Trees {
		if err := tree.Validate(g.Ranks); err != nil {
			t.Fatal(err)
		}
		if v := testutil.MissingLinks(g, tree); v >= 0 {
			t.Fatalf("tree %d takes a link of rank %d that the graph does not have", i, v)
		}
		from[tree.Root] += r.Rates[i]
		for v, p := range tree.Parent {
			if p >= 0 {
				carried[[2]int{p, v}] += r.Rates[i]
			}
		}
	}
	for root, rate := range from {
		if want := r.Rate / float64(g.Ranks); math.Abs(rate-want) > 1e-9*want {
			t.Errorf("root %d has %v GB/s, want %v as every other", root, rate, want)
		}
	}
	in := make([]float64, len(g.Ports))
	out := make([]float64, len(g.Ports))
	for _, l := range g.Links {
		for _, ends := range [][2]int{{l.A, l.B}, {l.B, l.A}} {
			c := carried[ends]
			if c > l.GBytesPerSecond*(1+1e-9) {
				t.Errorf("%d to %d carries %v of %v GB/s", ends[0], ends[1], c, l.GBytesPerSecond)
			}
			if l.PortCost > 0 {
				c *= l.PortCost
			}
			for p, port := range g.Ports {
				inside := map[int]bool{}
				for _, v := range port.Ranks {
					inside[v] = true
				}
				if inside[ends[1]] && !inside[ends[0]] {
					in[p] += c
				}
				if inside[ends[0]] && !inside[ends[1]] {
					out[p] += c
				}
			}
		}
	}
	for p, port := range g.Ports {
		if most := max(in[p], out[p]); most > port.GBytesPerSecond*(1+1e-9) {
			t.Errorf("port %s carries %v of %v GB/s", port.Name, most, port.GBytesPerSecond)
		}
	}
	if err := r.Bound.Check(g); err != nil {
		t.Error(err)
	}
}

// On a DGX-1V every GPU has 150 GB/s, into which 7 of 8 parts go.
func TestPartsDGX1V(t *testing.T) {
	r, err := Pack(dgx1v(), EveryRoot, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkParts(t, dgx1v(), r)
	if want := 150.0 * 8 / 7; r.Rate < 0.99*want || r.Rate > want*(1+1e-6) || math.Abs(r.Bound.Rate-want) > 1e-6*want {
		t.Errorf("rate %v of %v, want %v", r.Rate, r.Bound.Rate, want)
	}
}

// On random connected graphs the rate is that of the least cut, over all cuts.
func TestPartsReachEveryCut(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for range 120 {
		g := drawn(random, 2+random.IntN(7))
		r, err := Pack(g, EveryRoot, Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkParts(t, g, r)
		if want := cutsBound(g); math.Abs(r.Bound.Rate-want) > 1e-6*want || r.Ratio < 0.985 || r.Ratio > 1+1e-6 {
			t.Errorf("rate %v of %v, by all cuts %v: %+v", r.Rate, r.Bound.Rate, want, g)
		}
		if r.Bound.Partition == nil {
			t.Errorf("no cut says the limit of %+v", g)
		}
	}
}

// With ports the rate still comes within a percent of the bound that the prices prove.
func TestPartsWithPorts(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	for range 60 {
		g := drawn(random, 3+random.IntN(6))
		for p := range 1 + random.IntN(2) {
			port := topo.Port{Name: string(rune('a' + p)), GBytesPerSecond: 1 + 9*random.Float64()}
			for v := range 1 + random.IntN(g.Ranks-1) {
				port.Ranks = append(port.Ranks, v)
			}
			g.Ports = append(g.Ports, port)
		}
		g.Links[random.IntN(len(g.Links))].PortCost = 1 + 2*random.Float64()
		r, err := Pack(g, EveryRoot, Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkParts(t, g, r)
		if r.Ratio < 0.985 || r.Ratio > 1+1e-6 {
			t.Errorf("rate %v of %v: %+v", r.Rate, r.Bound.Rate, g)
		}
	}
}

// drawn is a random connected graph: a random tree, and half of all other links.
func drawn(random *rand.Rand, n int) *topo.Graph {
	g := &topo.Graph{Ranks: n}
	for b := 1; b < n; b++ {
		to := random.IntN(b)
		for a := range b {
			if a == to || random.IntN(2) == 0 {
				g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: float64(1 + random.IntN(6))})
			}
		}
	}
	return g
}

// Hosts whose ranks all have links of one rate among them and of a slower one
// to all others: the program is degenerate there, and still ends at the bound.
func TestPartsOfMeshes(t *testing.T) {
	for _, c := range []struct {
		hosts, each int
		least       float64
	}{{3, 4, 0.985}, {4, 4, 0.985}} {
		g := &topo.Graph{Ranks: c.hosts * c.each}
		for b := range g.Ranks {
			for a := range b {
				rate := 12.5
				if a/c.each == b/c.each {
					rate = 50
				}
				g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: rate})
			}
		}
		r, err := Pack(g, EveryRoot, Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkParts(t, g, r)
		if r.Ratio < c.least {
			t.Errorf("%d hosts of %d: %v of %v GB/s", c.hosts, c.each, r.Rate, r.Bound.Rate)
		}
	}
}

// TestLowParts: with a tolerance the trees of every part are as low as their graph allows at nearly the same rate, and
// keep all promises.
func TestLowParts(t *testing.T) {
	for _, c := range []struct {
		name         string
		free, height int // of the highest tree
	}{{"dgx1v", 7, 2}, {"mi250", 15, 6}, {"dgxa100-x2", 8, 2}, {"pcie8", 4, 3}} {
		g, _ := topo.Machine(c.name)
		for _, o := range []Options{{}, {HeightTolerance: 0.03}} {
			r, err := Pack(g, EveryRoot, o)
			if err != nil {
				t.Fatal(err)
			}
			checkParts(t, g, r)
			most := 0
			for _, tree := range r.Trees {
				most = max(most, tree.Depth())
			}
			if want := map[bool]int{false: c.free, true: c.height}[o.HeightTolerance > 0]; most > want {
				t.Errorf("%s, tolerance %v: a tree of height %d, want %d at most", c.name, o.HeightTolerance, most, want)
			}
			if r.Ratio < 0.97 {
				t.Errorf("%s, tolerance %v: %.3f of the bound", c.name, o.HeightTolerance, r.Ratio)
			}
		}
	}
	random := rand.New(rand.NewPCG(7, 7))
	for i := range 40 {
		g := drawn(random, 2+random.IntN(7))
		free, err := Pack(g, EveryRoot, Options{})
		if err != nil {
			t.Fatal(err)
		}
		low, err := Pack(g, EveryRoot, Options{HeightTolerance: 0.1})
		if err != nil {
			t.Fatal(err)
		}
		checkParts(t, g, low)
		if low.Rate < 0.89*free.Rate {
			t.Errorf("graph %d: %v GB/s of %v with a tolerance of 0.1", i, low.Rate, free.Rate)
		}
	}
}
