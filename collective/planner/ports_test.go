package planner

import (
	"math"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// TestPortsOnRealPaths puts the bytes of plans for two hosts of PCIe switches on the hardware that they take: slots,
// uplinks, the interconnects of the sockets, and cards. Plans for the machine as the built-in graph has it are carried
// at their rate. Of the same machine with links between all pairs and a port for the cards of a host, plans are not,
// and topo warns.
func TestPortsOnRealPaths(t *testing.T) {
	right, _ := topo.Machine("pcie4-x2")
	wrong := &topo.Graph{Ranks: 8, Hosts: right.Hosts}
	for b := range wrong.Ranks {
		for a := range b {
			l := topo.Link{A: a, B: b, GBytesPerSecond: 12.5, LatencyUs: 14, Kind: "infiniband"}
			if a/4 == b/4 {
				l.GBytesPerSecond, l.LatencyUs, l.Kind = 22, 9, "pcie"
			}
			if a/2 == b/2 {
				l.GBytesPerSecond = 24
			}
			wrong.Links = append(wrong.Links, l)
		}
	}
	wrong.Ports = []topo.Port{{Name: "cards of host 0", Ranks: []int{0, 1, 2, 3}, GBytesPerSecond: 25},
		{Name: "cards of host 1", Ranks: []int{4, 5, 6, 7}, GBytesPerSecond: 25}}
	if list := wrong.Doubts(); len(list) != 2 {
		t.Errorf("doubts of the wrong form: %v", list)
	}
	for _, kind := range []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.AllGather, plan.ReduceScatter} {
		for g, want := range map[*topo.Graph]bool{right: true, wrong: false} {
			c := choose(t, plannerFor(t, g, Machine{Device: true}, Options{}), kind, 1, 256<<20)
			if part := carriedByPCIe(c.Chosen.Plan) / c.Rate; part >= 0.9 != want || part > 1.1 {
				t.Errorf("%v by %s: the hardware carries %.2f of %v GB/s; as it should: %v", kind, c.Chosen.Name(), part,
					c.Rate, want)
			}
		}
	}
}

// carriedByPCIe returns the rate of message at which the hardware of pcie4-x2 carries a plan.
func carriedByPCIe(p *plan.Plan) float64 {
	type resource struct {
		what    string
		of      int
		outward bool
	}
	rates := map[string]float64{"slot": 24, "uplink": 24, "card": 12.5, "interconnect": 22}
	part := 1 << 30
	if p.Kind.HasParts() {
		part /= p.Size
	}
	busy := make(map[resource]float64) // seconds * 1e9
	for i, share := range p.Shares() {
		bytes := float64(share.Span(int64(part), 1, plan.Chunks{}, 0).Bytes)
		for _, track := range p.Lanes[i].Tracks {
			for _, s := range track.Steps {
				if !s.Op.Sends() {
					continue
				}
				take := func(what string, out, in int) {
					busy[resource{what, out, true}] += bytes / rates[what]
					busy[resource{what, in, false}] += bytes / rates[what]
				}
				a, b := track.Rank, int(s.To)
				take("slot", a, b)
				if a/2 != b/2 {
					take("uplink", a/2, b/2)
				}
				switch {
				case a/4 != b/4:
					take("card", a/2, b/2)
				case a/2 != b/2:
					take("interconnect", a/2, b/2)
				}
			}
		}
	}
	most := 0.0
	for _, t := range busy {
		most = math.Max(most, t)
	}
	return 1 << 30 / most
}
