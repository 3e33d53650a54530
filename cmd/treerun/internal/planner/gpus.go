package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
)

// GPUHost is the GPUs of one host and the ranks on them.
type GPUHost struct {
	Ranks   []int    // ascending
	Devices []string // by place in Ranks: UUID of its GPU
	Machine *gpu.Machine
	Dropped []string // a line for each link that is advertised and not used
}

// gpuText says which rank runs on which GPU, how measured rates stand to declared
// ones, and what cannot be used.
func gpuText(g *topo.Graph, hosts []GPUHost, names []string) string {
	var b strings.Builder
	for i, h := range hosts {
		where := ""
		if len(hosts) > 1 && i < len(names) {
			where = names[i] + ": "
		}
		for k, r := range h.Ranks {
			if d := h.Machine.Find(h.Devices[k]); d != nil {
				fmt.Fprintf(&b, "%srank %d: %s\n", where, r, describe(d))
			}
		}
		for _, line := range h.Dropped {
			fmt.Fprintf(&b, "%s%s\n", where, line)
		}
	}
	return b.String() + besides(g)
}

// describe writes what NVML says of a GPU.
func describe(d *gpu.GPU) string {
	text := fmt.Sprintf("GPU %d (%s, %s, %s)", d.Index, d.Name, d.UUID, d.PCI)
	if d.NUMA >= 0 {
		text += fmt.Sprintf(", NUMA node %d", d.NUMA)
	}
	if d.PCIeGeneration > 0 && d.PCIeWidth > 0 {
		text += fmt.Sprintf(", PCIe %d.0 x%d", d.PCIeGeneration, d.PCIeWidth)
	}
	peers, switches := 0, 0
	for _, l := range d.NVLinks {
		if l.Switch {
			switches++
		} else {
			peers++
		}
	}
	if n := peers + switches; n > 0 {
		text += fmt.Sprintf(", %d NVLinks %d.0", n, d.NVLinks[0].Version)
	}
	if switches > 0 {
		text += " to NVSwitches"
	}
	return text
}

// besides writes a line for links of one kind that are declared the same: what was
// measured of them.
func besides(g *topo.Graph) string {
	type class struct {
		kind     string
		declared float64
	}
	var order []class
	measured := make(map[class][]float64)
	for _, l := range g.Links {
		if l.Declared == 0 {
			continue
		}
		c := class{l.Kind, l.Declared}
		if measured[c] == nil {
			order = append(order, c)
		}
		measured[c] = append(measured[c], l.GBytesPerSecond)
	}
	var b strings.Builder
	for _, c := range order {
		low, top := slices.Min(measured[c]), slices.Max(measured[c])
		rates := fmt.Sprintf("%.4g GB/s", low)
		if top > low {
			rates = fmt.Sprintf("%.4g to %.4g GB/s", low, top)
		}
		fmt.Fprintf(&b, "%s: %d links, measured %s, declared %.4g GB/s (%.0f %%)\n",
			c.kind, len(measured[c]), rates, c.declared, 100*low/c.declared)
	}
	return b.String()
}
