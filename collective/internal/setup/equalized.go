package setup

import (
	"math"
	"slices"

	"github.com/treerun/treerun/topo"
)

// levelFrom is the rate of links between hosts of one machine, in GB/s, from which they are assumed to be equal: only
// the machine's cores and memory limit them then, and differences between measured links show how these were shared at
// that moment.
const levelFrom = 1.5

// equalized returns g with equal links between all hosts, and without cards, where all hosts are one machine whose
// network has no limits; otherwise g itself.
func (a *agreement) equalized(g *topo.Graph) *topo.Graph {
	if !a.oneMachine() || len(g.Hosts) != g.Ranks {
		return g
	}
	flat := *g
	flat.Links, flat.Ports = slices.Clone(g.Links), nil
	var rates, latencies []*float64
	for i := range flat.Links {
		l := &flat.Links[i]
		if g.Hosts[l.A] == g.Hosts[l.B] {
			continue
		}
		if l.Source == topo.Declared || l.GBytesPerSecond < levelFrom {
			return g
		}
		rates, latencies = append(rates, &l.GBytesPerSecond), append(latencies, &l.LatencyUs)
	}
	if len(rates) == 0 {
		return g
	}
	topo.Level(rates, math.Inf(1))
	topo.Level(latencies, math.Inf(1))
	return &flat
}
