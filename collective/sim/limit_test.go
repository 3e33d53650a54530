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
	x, err := NewPricer(g)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []plan.Kind{plan.AllReduce, plan.Broadcast, plan.Reduce} {
		p := mustTrees(t, kind, plan.Single, chainTree(4))
		for _, bytes := range []int64{0, 8, 100 << 10} {
			ops := []Operation{{Plan: p, Bytes: bytes}}
			us := func(limit float64) float64 {
				v, err := x.Us(ops, Executor(8, 32<<10, 0), Limits{Steps: 1e5, Chunks: 16, Us: limit})
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

// What is priced by two shorter runs costs more with every byte, and never less than its steps
// take on the ranks' cores, though the plan be so deep that it is not yet full in either run.
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
		x, err := NewPricer(g)
		if err != nil {
			t.Fatal(err)
		}
		m := Executor(8, 4<<10, rapid.IntRange(1, n).Draw(t, "cores"))
		most := Limits{Steps: 400, Chunks: float64(rapid.IntRange(2, 8).Draw(t, "chunks"))}
		perChunk, _ := Weigh(p)
		bytes := int64(m.SlotBytes) * int64(1+max(3*most.Chunks/2, most.Steps/perChunk*1.5))
		before := 0.0
		for range 4 {
			us, err := x.Us([]Operation{{Plan: p, Bytes: bytes}}, m, most)
			if err != nil {
				t.Fatal(err)
			}
			_, least, err := x.LeastUs(p, bytes, m)
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
