package sim

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// A limit of the time changes no price that is within it: a credit that comes back
// after the end over a slow link counts for nothing.
func TestLimitChangesNoPrice(t *testing.T) {
	g := topo.UniformGraph(4)
	for i := range g.Links {
		g.Links[i].LatencyUs = float64(1 + 10*i)
	}
	for _, kind := range []plan.Kind{plan.AllReduce, plan.Broadcast, plan.Reduce} {
		p := mustTrees(t, kind, plan.Single, chainTree(4))
		for _, bytes := range []int64{0, 8, 100 << 10} {
			us := func(limit float64) float64 {
				x := NewPricer(g, topo.NewWays(g), Executor(8, 32<<10, 0)) // which remembers no run without the limit
				v, err := x.Us(p, bytes, 1, plan.Chunks{}, Limits{Steps: 1e5, Chunks: 16, Us: limit})
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			free := us(0)
			if within := us(free * 1.001); within != free {
				t.Errorf("%v of %d bytes: %v us, %v with a limit above", kind, bytes, free, within)
			}
			if below := us(free * 0.999); !math.IsInf(below, 1) {
				t.Errorf("%v of %d bytes: %v us, %v with a limit below", kind, bytes, free, below)
			}
		}
	}
}

// A message that is priced by two shorter runs costs more with every byte, and never less than its steps take on the
// ranks' cores, though the plan be so deep that it is not yet full in either run.
func TestLinesRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "ranks")
		g := &topo.Graph{Ranks: n}
		for r := 1; r < n; r++ {
			g.Links = append(g.Links, topo.Link{A: r - 1, B: r, GBytesPerSecond: 10, LatencyUs: 1})
		}
		p, err := plan.FromTrees(plan.AllReduce, []topo.Tree{chainTree(n)}, nil, plan.Split)
		if err != nil {
			t.Fatal(err)
		}
		m := Executor(8, 4<<10, rapid.IntRange(1, n).Draw(t, "cores"))
		most := Limits{Steps: 400, Chunks: float64(rapid.IntRange(2, 8).Draw(t, "chunks"))}
		perChunk, _ := Weigh(p)
		bytes := int64(m.SlotBytes) * int64(1+max(3*most.Chunks/2, most.Steps/perChunk*1.5))
		x, before := NewPricer(g, topo.NewWays(g), m), 0.0
		for range 4 {
			us, err := x.Us(p, bytes, 1, plan.Chunks{}, most)
			if err != nil {
				t.Fatal(err)
			}
			_, least, err := x.LeastUs(p, bytes, plan.Chunks{})
			if err != nil {
				t.Fatal(err)
			}
			if us < before || us < least {
				t.Fatalf("%d bytes take %v us, fewer %v, their steps alone %v", bytes, us, before, least)
			}
			before, bytes = us, 2*bytes
		}
	})
}

// No price of a long path or a random tree on few cores is below that of half the message, whether
// it is that of a run or of two shorter ones.
func TestNoPriceIsBelowThatOfHalf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{5, 12, 40, 90}).Draw(t, "ranks")
		g := drawGraph(t, n)
		g.Hosts = nil
		tree := drawTree(t, g)
		if rapid.Bool().Draw(t, "path") {
			g, tree = &topo.Graph{Ranks: n}, chainTree(n)
			for r := 1; r < n; r++ {
				g.Links = append(g.Links, topo.Link{A: r - 1, B: r, GBytesPerSecond: 10, LatencyUs: 1})
			}
		}
		kind := rapid.SampledFrom([]plan.Kind{plan.AllReduce, plan.Broadcast, plan.Reduce}).Draw(t, "kind")
		form := rapid.SampledFrom([]plan.Form{plan.Single, plan.Split}).Draw(t, "form")
		p, err := plan.FromTrees(kind, []topo.Tree{tree}, nil, form)
		if err != nil {
			t.Fatal(err)
		}
		m := Executor(8, rapid.SampledFrom([]int{1 << 10, 32 << 10}).Draw(t, "slot"), rapid.IntRange(0, 8).Draw(t, "cores"))
		x, before := NewPricer(g, topo.NewWays(g), m), 0.0
		for bytes := int64(16 << 10); bytes <= 16<<20; bytes *= 2 {
			us, err := x.Us(p, bytes, 1, plan.Chunks{}, Limits{Steps: 400, Chunks: 8})
			if err != nil {
				t.Fatal(err)
			}
			_, least, err := x.LeastUs(p, bytes, plan.Chunks{})
			if err != nil {
				t.Fatal(err)
			}
			if us < least*(1-1e-9) || us < before*(1-1e-9) {
				t.Fatalf("%v of %d bytes: %v us, its steps take %v at least, half of it %v", kind, bytes, us, least, before)
			}
			before = us
		}
	})
}
