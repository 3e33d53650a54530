package planner

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/topo"
)

// drawGraph draws a connected graph of a few ranks, some with hosts and ports.
func drawGraph(t *rapid.T) *topo.Graph {
	n := rapid.IntRange(2, 7).Draw(t, "ranks")
	g := &topo.Graph{Name: "drawn", Ranks: n}
	rate := rapid.Float64Range(0.5, 50)
	for b := 1; b < n; b++ {
		to := rapid.IntRange(0, b-1).Draw(t, "joined to")
		for a := range b {
			if a == to || rapid.Bool().Draw(t, "link") {
				g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: rate.Draw(t, "rate"),
					LatencyUs: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(topo.MinLatency, 20)).Draw(t, "latency")})
			}
		}
	}
	for p := range rapid.IntRange(0, 2).Draw(t, "ports") {
		k := rapid.IntRange(1, n-1).Draw(t, "ranks of the port")
		port := topo.Port{Name: fmt.Sprintf("port %d", p), GBytesPerSecond: rate.Draw(t, "rate of the port")}
		for v := range k {
			port.Ranks = append(port.Ranks, v)
		}
		g.Ports = append(g.Ports, port)
	}
	return g
}

// The bound of an AllGather holds for a flow that a dumb count finds: no rank
// can send out or take in more than its links and the ports around it alone let
// pass.
func TestCutsBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := drawGraph(rt)
		c := cutsBound(g)
		for v := range g.Ranks {
			sum := 0.0
			for _, l := range g.Links {
				if l.A == v || l.B == v {
					sum += l.GBytesPerSecond
				}
			}
			for _, p := range g.Ports {
				if len(p.Ranks) == 1 && p.Ranks[0] == v {
					sum = min(sum, p.GBytesPerSecond)
				}
			}
			if most := sum * float64(g.Ranks) / float64(g.Ranks-1); c.Rate > most*(1+1e-9) {
				rt.Errorf("rank %d takes in at most %v, the bound is %v", v, most, c.Rate)
			}
		}
	})
}
