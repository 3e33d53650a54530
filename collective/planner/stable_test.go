package planner

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// TestStable: with Options.Stable every plan that reduces adds in one order, as its expressions prove, for all sizes,
// on one host and on several, and other collectives are planned as usual. Without it some plan does not.
func TestStable(t *testing.T) {
	graphs := map[string]*topo.Graph{"1 host, 40 ranks": topo.UniformGraph(40)}
	for n := 1; n <= 9; n++ {
		graphs[fmt.Sprintf("1 host, %d ranks", n)] = topo.UniformGraph(n)
	}
	for name, g := range allHosts() {
		graphs[name] = g
	}
	other := 0
	for i, name := range slices.Sorted(maps.Keys(graphs)) {
		g := graphs[name]
		for _, stable := range []bool{true, false} {
			if !stable && i%4 > 0 && !testutil.Thorough() {
				continue
			}
			p, err := New(g, Machine{Cores: 2}, Options{Stable: stable})
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []plan.Kind{plan.AllReduce, plan.Reduce, plan.ReduceScatter, plan.Broadcast, plan.AllGather,
				plan.Barrier} {
				for _, bytes := range []int64{8, 4 << 10, 1 << 20, 64 << 20} {
					s, err := p.PlanFor(kind, g.Ranks-1, bytes)
					if err != nil {
						t.Fatalf("%s: %v of %d bytes: %v", name, kind, bytes, err)
					}
					if !p.Site.ordered(kind) && stable || kind == plan.Broadcast ||
						kind == plan.AllGather || kind == plan.Barrier {
						continue
					}
					switch err := plan.VerifyStable(s.Plan, g.ByHost(), minSlots); {
					case err != nil && stable:
						t.Errorf("%s: %v of %d bytes by %s: %v", name, kind, bytes, s.Name(), err)
					case err != nil:
						other++
					}
				}
			}
		}
	}
	if other == 0 {
		t.Error("every plan has one order without being asked: nothing was tested")
	}
}

// sparse are graphs in which ranks lack links: machines, and random ones of one host and of
// several, the ranks of each joined among themselves.
func sparse() map[string]*topo.Graph {
	graphs := make(map[string]*topo.Graph)
	for _, name := range topo.Machines() {
		graphs[name], _ = topo.Machine(name)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 24 {
		g := &topo.Graph{Name: "random", Ranks: 2 + rng.IntN(9)}
		hosts := 1 + i%3
		for r := range g.Ranks {
			g.Hosts = append(g.Hosts, r*hosts/g.Ranks)
		}
		for b := 1; b < g.Ranks; b++ {
			near := b - 1 - rng.IntN(b)
			for g.Hosts[near] != g.Hosts[b] && g.Hosts[b] == g.Hosts[b-1] {
				near = b - 1 - rng.IntN(b)
			}
			for a := range b {
				if a == near || rng.IntN(5) == 0 {
					kind := ""
					if g.Hosts[a] != g.Hosts[b] {
						kind = topo.TCP
					}
					g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: 1 + 9*rng.Float64(), LatencyUs: 1, Kind: kind})
				}
			}
		}
		graphs[fmt.Sprintf("random %d", i)] = g
	}
	return graphs
}

// TestStableWithoutLinks: with Options.Stable every machine has plans of all kinds and roots
// that add in one order at all sizes, and so have random graphs.
func TestStableWithoutLinks(t *testing.T) {
	graphs := sparse()
	for i, name := range slices.Sorted(maps.Keys(graphs)) {
		if i%4 != 0 && !testutil.Thorough() {
			continue
		}
		g := graphs[name]
		p, err := New(g, Machine{Device: len(name)%2 == 0}, Options{Stable: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []plan.Kind{plan.AllReduce, plan.Reduce, plan.ReduceScatter} {
			for root := range 1 + (g.Ranks-1)%3 {
				for _, bytes := range []int64{8, 256 << 10, 64 << 20} {
					s, err := p.PlanFor(kind, root, bytes)
					if err != nil {
						t.Fatalf("%s: %v of %d bytes: %v", name, kind, bytes, err)
					}
					if err := p.Site.Verify(s); err != nil {
						t.Errorf("%s: %v of %d bytes by %s: %v", name, kind, bytes, s.Name(), err)
					}
				}
				if kind != plan.Reduce {
					break
				}
			}
		}
		if g.Ranks > 8 {
			continue // trees of all kinds take seconds to find
		}
		if _, err := p.allPairs(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
