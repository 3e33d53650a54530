package sim

import (
	"math"
	"testing"

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
