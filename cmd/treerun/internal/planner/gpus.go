package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/topo/gpu"
)

// GPUHost is the GPUs of one host and the ranks on them.
type GPUHost struct {
	Ranks   []int    // ascending
	Devices []string // by place in Ranks: UUID of its GPU
	Machine *gpu.Machine
	Dropped []string // a line for each link that is advertised and not used
}

// gpuText says which rank runs on which GPU, and what cannot be used.
func gpuText(hosts []GPUHost, names []string) string {
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
	return b.String()
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
	if n := len(d.NVLinks); n > 0 {
		text += fmt.Sprintf(", %d NVLinks %d.0", n, d.NVLinks[0].Version)
	}
	if slices.ContainsFunc(d.NVLinks, func(l gpu.NVLink) bool { return l.Switch }) {
		text += " to NVSwitches"
	}
	return text
}
