package collective

import (
	"fmt"
	"testing"

	"github.com/treerun/treerun/topo"
)

// BenchmarkPlanHosts is what rank 0 does in New: trees, lanes and the choices for
// AllReduce and Barrier. Four hosts are to take milliseconds, 64 of eight ranks
// about a second.
func BenchmarkPlanHosts(b *testing.B) {
	for name, g := range map[string]*topo.Graph{
		"4x1 even": evenNet(4, 1), "4x1 mesh": meshNet(1), "4x1 cards": unevenNet(1),
		"4x2 even": evenNet(4, 2), "4x2 mesh": meshNet(2), "4x2 cards": unevenNet(2),
		"8x8 even": evenNet(8, 8), "16x1 uneven": roughNet(16, 1), "64x8 even": evenNet(64, 8), "64x8 uneven": roughNet(64, 8),
		"32x8 uneven": roughNet(32, 8), "1024x8": evenNet(1024, 8),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				plannerOf(b, g)
			}
		})
	}
}

// roughNet is hosts whose cards and wires differ.
func roughNet(hosts, each int) *topo.Graph {
	g := networkOf(hosts, each, func(a, b int) float64 { return float64(4 + (7*a+3*b)%5) }, func(h int) float64 { return float64(4 + h%3) })
	g.Name = fmt.Sprintf("rough%dx%d", hosts, each)
	return g
}
