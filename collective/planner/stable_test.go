package planner

import (
	"fmt"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/testutil/nets"
	"github.com/treerun/treerun/topo"
)

// TestStable: with Options.Stable every plan that reduces adds in one order, as its
// expressions prove, whatever the size, on one host and on several, and other collectives
// are planned as usual. Without it some plan does not.
func TestStable(t *testing.T) {
	graphs := map[string]*topo.Graph{"1 host, 40 ranks": topo.UniformGraph(40)}
	for n := 1; n <= 9; n++ {
		graphs[fmt.Sprintf("1 host, %d ranks", n)] = topo.UniformGraph(n)
	}
	for name, g := range nets.All() {
		graphs[name] = g
	}
	other := 0
	for name, g := range graphs {
		for _, stable := range []bool{true, false} {
			p, err := New(g, Machine{Cores: 2}, Options{Stable: stable})
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []plan.Kind{plan.AllReduce, plan.Reduce, plan.ReduceScatter, plan.Broadcast, plan.AllGather, plan.Barrier} {
				for _, bytes := range []int64{8, 4 << 10, 1 << 20, 64 << 20} {
					s, err := p.Serve(kind, g.Ranks-1, bytes)
					if err != nil {
						t.Fatalf("%s: %v of %d bytes: %v", name, kind, bytes, err)
					}
					if !p.ordered(kind) && stable || kind == plan.Broadcast || kind == plan.AllGather || kind == plan.Barrier {
						continue
					}
					switch err := plan.VerifyStable(s.Plan, plan.Hosts(g), minSlots); {
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
