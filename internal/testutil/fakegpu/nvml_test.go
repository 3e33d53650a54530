package fakegpu

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// TestNVMLTellsTheGraph puts what NVML says together again, and compares it with
// the graph that the fake host was made of.
func TestNVMLTellsTheGraph(t *testing.T) {
	for _, c := range []struct{ graph, first string }{
		{"dgx1v", "gpu 0 00000000:06:00.0 nodes 1 cc 7.0 pcie 3x16 Tesla V100-SXM2-16GB (fake)"},
		{"dgx1p", "gpu 0 00000000:06:00.0 nodes 1 cc 6.0 pcie 3x16 Tesla P100-SXM2-16GB (fake)"},
		{"dgx1v-x2", "gpu 7 00000000:1B:00.0 nodes 2 cc 7.0 pcie 3x16 Tesla V100-SXM2-16GB (fake)"},
		{"p3dn", "gpu 0 00000000:06:00.0 nodes 1 cc 7.0 pcie 3x16 Tesla V100-SXM2-16GB (fake)"},
		{"p3.16xlarge", "gpu 4 00000000:12:00.0 nodes 2 cc 7.0 pcie 3x16 Tesla V100-SXM2-16GB (fake)"},
		{"dgx2", "gpu 15 00000000:33:00.0 nodes 2 cc 7.0 pcie 3x16 Tesla V100-SXM2-16GB (fake)"},
		{"dgxa100", "gpu 0 00000000:06:00.0 nodes 1 cc 8.0 pcie 4x16 NVIDIA A100-SXM4-40GB (fake)"},
		{"dgxh100", "gpu 0 00000000:06:00.0 nodes 1 cc 9.0 pcie 5x16 NVIDIA H100 80GB HBM3 (fake)"},
		{"dgxh100/2-3", "gpu 1 00000000:09:00.0 nodes 1 cc 9.0 pcie 5x16 NVIDIA H100 80GB HBM3 (fake)"},
		{"pcie8", "gpu 0 00000000:06:00.0 nodes 1 cc 7.0 pcie 3x16 Tesla V100-PCIE-16GB (fake)"},
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

// compareLinks adds up the NVLinks of every pair and looks at who can access whom.
func compareLinks(t *testing.T, g *topo.Graph, out string) {
	t.Helper()
	perLink := map[int]float64{1: 20, 2: 25, 4: 25, 6: 25} // GB/s, by version
	pci := map[string]int{}
	for line := range strings.Lines(out) {
		var gpu int
		var id string
		if n, _ := fmt.Sscanf(line, "gpu %d %s", &gpu, &id); n == 2 {
			pci[id] = gpu
		}
	}
	direct, switched := topo.Matrix{N: g.Ranks, V: make([]float64, g.Ranks*g.Ranks)}, make([]float64, g.Ranks)
	peers := 0
	for line := range strings.Lines(out) {
		var gpu, link, version, a, b, level, p2p int
		var what, id string
		if n, _ := fmt.Sscanf(line, "nvlink %d %d %d %s %s", &gpu, &link, &version, &what, &id); n == 5 {
			if what == "switch" {
				switched[gpu] += perLink[version]
			} else {
				direct.V[gpu*g.Ranks+pci[id]] += perLink[version]
			}
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
		t.Errorf("NVML told of %d pairs of %d GPUs", peers, g.Ranks)
	}
	for _, l := range g.Links {
		var got float64
		switch l.Kind {
		case "nvlink":
			got = min(direct.At(l.A, l.B), direct.At(l.B, l.A))
		case "nvswitch":
			got = min(switched[l.A], switched[l.B])
		default:
			continue
		}
		if math.Abs(got-l.GBytesPerSecond) > 1e-6 {
			t.Errorf("link %d-%d has %v GB/s, by NVML %v", l.A, l.B, l.GBytesPerSecond, got)
		}
	}
}

func TestNVMLFaults(t *testing.T) {
	drive(t, "nvml-lost", "TREERUN_FAKE_GPU_LOST=2@50")
	drive(t, "nvml-forbidden", "TREERUN_FAKE_GPU_NO_PERMISSION=1")
	drive(t, "nvml-no-host", Variable+"=")
}
