package planner

import (
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// BenchmarkDecide measures the planning of rank 0 in New: trees, links, and the choices for AllReduce and Barrier.
func BenchmarkDecide(b *testing.B) {
	rough := func(hosts, each int) *topo.Graph {
		return testutil.Hosts(hosts, each, func(a, b int) float64 { return float64(4 + (7*a+3*b)%5) },
			func(h int) float64 { return float64(4 + h%3) })
	}
	dgx, _ := topo.Machine("dgx1v")
	two, _ := topo.Machine("dgx1v-x2")
	for name, g := range map[string]*topo.Graph{
		"dgx1v": dgx, "dgx1v-x2": two, "8": topo.UniformGraph(8), "sockets of 9": sockets(9), "sockets of 16": sockets(16),
		"4x1 even": evenHosts(4, 1), "4x1 mesh": meshedHosts(1),
		"4x2 even": evenHosts(4, 2), "4x2 mesh": meshedHosts(2),
		"8x8 even": evenHosts(8, 8), "16x1 uneven": rough(16, 1), "32x8 uneven": rough(32, 8),
		"64x8 even": evenHosts(64, 8), "64x8 uneven": rough(64, 8),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p := plannerOf(b, g, Options{})
				if _, err := p.Decide([]plan.Kind{plan.AllReduce, plan.Barrier}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
