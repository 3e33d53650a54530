package peers

import (
	"fmt"
	"strings"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
)

// DroppedLines returns a line for each link of the host that is advertised and not
// used, for people.
func (h *HostResult) DroppedLines() []string {
	var lines []string
	for _, d := range h.Dropped {
		lines = append(lines, d.Line(h.Ranks, h.Devices))
	}
	return lines
}

// PCIeLines returns a line for each link over PCIe that was measured now: its rate either way, and the way that is
// used.
func (h *HostResult) PCIeLines() []string {
	var lines []string
	index := h.Graph.LinkIndex()
	for _, f := range h.Found {
		if i, has := index[topo.Pair(f.A, f.B)]; has && strings.HasPrefix(h.Graph.Links[i].Kind, gpu.KindPCIe) {
			lines = append(lines, fmt.Sprintf("the link of ranks %d and %d (%s): pull %.1f GB/s, push %.1f GB/s", h.Ranks[f.A],
				h.Ranks[f.B], h.Graph.Links[i].Kind, f.GBytesPerSecond, f.Push))
		}
	}
	return lines
}

// Join returns the graph of all ranks: the network of ranks, and within the hosts the graphs that were measured. A full
// one has a link for every pair of a host, through the host's memory where there is no better one, for plans that let
// each rank send to each.
func Join(ranks *topo.Graph, hosts []HostResult, full bool) (*topo.Graph, error) {
	var parts []gpu.Part
	for _, h := range hosts {
		g := h.Graph
		if full {
			var err error
			if g, err = gpu.Fill(g, h.Machine, h.Devices); err != nil {
				return nil, fmt.Errorf("measure peer links: %w", err)
			}
		}
		parts = append(parts, gpu.Part{Ranks: h.Ranks, Graph: g})
	}
	return gpu.Join(ranks, parts)
}

// Validate checks a host's result that another process sent.
func (h *HostResult) Validate() error {
	if h.Machine == nil || len(h.Devices) != len(h.Ranks) {
		return fmt.Errorf("%d ranks with %d GPUs", len(h.Ranks), len(h.Devices))
	}
	if err := h.Machine.Validate(); err != nil {
		return err
	}
	for _, uuid := range h.Devices {
		if h.Machine.Find(uuid) == nil {
			return fmt.Errorf("GPU %.80q is not one of the host", uuid)
		}
	}
	for _, f := range h.Found {
		if f.A < 0 || f.A >= f.B || f.B >= len(h.Ranks) {
			return fmt.Errorf("it has measured the pair %d-%d", f.A, f.B)
		}
	}
	return checkGraph(h.Graph, h.Dropped, len(h.Ranks))
}
