package gpu

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Finding is the measurement of the link between two ranks on GPUs, in both directions.
type Finding struct {
	A, B            int     // ranks, A < B
	GBytesPerSecond float64 // of the slower direction, reading the other's memory
	Push            float64 // GB/s of the slower direction, writing there; 0: it was not tried
	LatencyUs       float64 // one way, microseconds
	Fault           string  // why the link cannot be used, in some words; "": it can
	Unopened        bool    // one rank's process cannot open the other's memory
	Hung            bool    // a copy has not ended: processes that have tried it cannot give anything back
	Refused         bool    // the fault is the driver's word beforehand: the link was never advertised
}

// usable reports whether f has the rate of a link.
func (f *Finding) usable() bool {
	return f.Fault == "" && f.GBytesPerSecond >= topo.MinRate && f.GBytesPerSecond <= topo.MaxRate
}

// pushGain is the ratio from which on writing, being quicker, takes the place of reading.
const pushGain = 1.1

// Pushes reports whether writing over the link is better for the ranks than reading.
func (f *Finding) Pushes() bool { return f.Push >= pushGain*f.GBytesPerSecond }

// Drop is a link that is advertised and cannot be used.
type Drop struct {
	A, B  int    // ranks of the host, A < B
	Fault string // why, in some words
}

// Dropped returns the links that are advertised and that cannot be used according to found.
func Dropped(found []Finding) []Drop {
	var all []Drop
	for _, f := range found {
		if f.Fault != "" && !f.Refused {
			all = append(all, Drop{f.A, f.B, f.Fault})
		}
	}
	return all
}

// Line describes the link for people: its ranks in the job, given by rank of the host, its GPUs, and the fault.
func (d Drop) Line(ranks []int, devices []string) string {
	return fmt.Sprintf("the link of ranks %d and %d (%s, %s) is not used: %s", ranks[d.A], ranks[d.B], devices[d.A],
		devices[d.B], d.Fault)
}

// alike is the ratio of two rates of links that are declared the same below which they count as the same.
const alike = 1.25

// measured puts the findings into g.
func measured(g *topo.Graph, found []Finding) {
	index := g.LinkIndex()
	type class struct {
		kind string
		rate float64
	}
	rates, latencies := make(map[class][]*float64), make(map[class][]*float64)
	for _, f := range found {
		i, has := index[topo.Pair(f.A, f.B)]
		if !has || !f.usable() {
			continue
		}
		l := &g.Links[i]
		if f.Pushes() && l.Kind == KindPCIe {
			l.Kind, f.GBytesPerSecond = KindPush, min(f.Push, topo.MaxRate)
		}
		c := class{l.Kind, l.GBytesPerSecond}
		rates[c], latencies[c] = append(rates[c], &l.GBytesPerSecond), append(latencies[c], &l.LatencyUs)
		l.Declared, l.GBytesPerSecond, l.Source = l.GBytesPerSecond, f.GBytesPerSecond, topo.Measured
		if f.LatencyUs >= topo.MinLatency && f.LatencyUs <= topo.MaxLatency {
			l.LatencyUs = f.LatencyUs
		}
	}
	for c := range rates {
		topo.Level(rates[c], alike)
		topo.Level(latencies[c], alike)
	}
	for i := range g.Ports {
		fit(g, &g.Ports[i])
	}
}

// fit makes a port fit the links that were measured through it. One flow fills the port of a GPU, so its rate is that
// of the best flow; other ports have at least that.
func fit(g *topo.Graph, p *topo.Port) {
	best, all := 0.0, true
	for _, l := range g.Links {
		if slices.Contains(p.Ranks, l.A) == slices.Contains(p.Ranks, l.B) {
			continue
		}
		if l.Source != topo.Measured {
			all = false
			continue
		}
		best = max(best, l.GBytesPerSecond)
	}
	if best > p.GBytesPerSecond || best > 0 && all && len(p.Ranks) == 1 {
		p.GBytesPerSecond = best
	}
}
