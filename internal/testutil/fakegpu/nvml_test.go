//go:build linux

package fakegpu

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// TestNVMLTellsTheGraph assembles a graph from the answers of NVML, and compares it with the graph that the fake host
// was made from.
func TestNVMLTellsTheGraph(t *testing.T) {
	for _, c := range []struct{ graph, first string }{
		{"dgx1v", "gpu 0 00000000:06:00.0 nodes 1 cc 7.0 pcie 3x16 Tesla V100-SXM2-16GB (fake)"},
		{"dgx1v/2-3", "gpu 1 00000000:09:00.0 nodes 1 cc 7.0 pcie 3x16 Tesla V100-SXM2-16GB (fake)"},
	} {
		t.Run(c.graph, func(t *testing.T) {
			out := driveOn(t, c.graph, "nvml")
			if !strings.Contains(out, c.first+"\n") {
				t.Errorf("no line %q in\n%s", c.first, out)
			}
			g, err := load(c.graph)
			if err != nil {
				t.Fatal(err)
			}
			compareLinks(t, g, out)
		})
	}
}

// compareLinks adds up the NVLinks of every pair and checks which GPUs can access each other.
func compareLinks(t *testing.T, g *topo.Graph, out string) {
	t.Helper()
	pci := map[string]int{}
	for line := range strings.Lines(out) {
		var gpu int
		var id string
		if n, _ := fmt.Sscanf(line, "gpu %d %s", &gpu, &id); n == 2 {
			pci[id] = gpu
		}
	}
	direct := topo.Matrix{N: g.Ranks, V: make([]float64, g.Ranks*g.Ranks)}
	peers := 0
	for line := range strings.Lines(out) {
		var gpu, link, version, a, b, level, p2p int
		var id string
		if n, _ := fmt.Sscanf(line, "nvlink %d %d %d %s", &gpu, &link, &version, &id); n == 4 {
			direct.V[gpu*g.Ranks+pci[id]] += 25 // GB/s
		}
		if n, _ := fmt.Sscanf(line, "pair %d %d level %d p2p %d", &a, &b, &level, &p2p); n == 4 {
			has := slices.ContainsFunc(g.Links, func(l topo.Link) bool { return min(l.A, l.B) == a && max(l.A, l.B) == b })
			if has != (p2p == 0) || !slices.Contains([]int{10, 30, 50}, level) {
				t.Errorf("graph has a link %d-%d: %v, NVML says %s", a, b, has, line)
			}
			peers++
		}
	}
	if peers != g.Ranks*(g.Ranks-1)/2 {
		t.Errorf("NVML reports %d pairs of %d GPUs", peers, g.Ranks)
	}
	for _, l := range g.Links {
		got := min(direct.At(l.A, l.B), direct.At(l.B, l.A))
		if l.Kind == "nvlink" && math.Abs(got-l.GBytesPerSecond) > 1e-6 {
			t.Errorf("link %d-%d has %v GB/s, by NVML %v", l.A, l.B, l.GBytesPerSecond, got)
		}
	}
}

func TestNVMLFaults(t *testing.T) {
	drive(t, "nvml-lost", "TREERUN_FAKE_GPU_LOST=2@50")
	drive(t, "nvml-forbidden", "TREERUN_FAKE_GPU_NO_PERMISSION=1")
	drive(t, "nvml-no-host", Variable+"=")
}
