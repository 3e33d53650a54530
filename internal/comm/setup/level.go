package setup

import (
	"slices"

	"github.com/treerun/treerun/topo"
)

// levelFrom is the rate of links between hosts of one machine, in GB/s, from which
// they are taken to be alike: nothing but the machine's cores and memory limits them
// then, and what was measured of each tells how these were shared out at that moment.
const levelFrom = 1.5

// levelled returns g with links between hosts that are all alike, and without cards,
// where all hosts are one machine (boxes are as in config) whose network has no
// limits; otherwise g itself.
func levelled(g *topo.Graph, boxes []int) *topo.Graph {
	if len(boxes) != g.Ranks || len(g.Hosts) != g.Ranks ||
		slices.ContainsFunc(boxes, func(b int) bool { return b != boxes[0] }) {
		return g
	}
	var rates, latencies []float64
	for _, l := range g.Links {
		if g.Hosts[l.A] == g.Hosts[l.B] {
			continue
		}
		if l.Source != topo.Measured || l.GBytesPerSecond < levelFrom {
			return g
		}
		rates, latencies = append(rates, l.GBytesPerSecond), append(latencies, l.LatencyUs)
	}
	if len(rates) == 0 {
		return g
	}
	slices.Sort(rates)
	slices.Sort(latencies)
	flat := *g
	flat.Links, flat.Ports = slices.Clone(g.Links), nil
	for i := range flat.Links {
		if l := &flat.Links[i]; g.Hosts[l.A] != g.Hosts[l.B] {
			l.GBytesPerSecond, l.LatencyUs = rates[len(rates)/2], latencies[len(latencies)/2]
		}
	}
	return &flat
}
