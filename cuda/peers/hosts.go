package peers

import (
	"fmt"

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

// Join returns the graph of all ranks: ranks, which knows the network, and within
// the hosts what was found. A full one has a link for every pair of a host, through
// the host's memory where there is no better one, as plans want it that let each rank
// send to each.
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

// Validate checks what another process says of a host.
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
