package planner

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// TestRateCountsBytes compares the rate of every candidate with a count of the bytes that its steps send over every
// link and through every port.
func TestRateCountsBytes(t *testing.T) {
	graphs := map[string]*topo.Graph{"uniform": topo.UniformGraph(5)}
	for _, name := range []string{"dgx1v", "dgxh100", "pcie8"} {
		graphs[name], _ = topo.Machine(name)
	}
	graphs["costs"], _ = topo.Machine("pcie8")
	for i := range graphs["costs"].Links {
		graphs["costs"].Links[i].PortCost = []float64{0, 1.2, 1.5}[i%3]
	}
	checked := make(map[plan.Kind]int)
	for name, g := range graphs {
		p := plannerFor(t, g, Machine{Device: true}, Options{})
		for _, kind := range everyKind() {
			if kind == plan.Barrier {
				continue
			}
			set, err := p.finder.candidates(kind, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range set.list {
				b, err := c.build(64 << 20)
				if err != nil {
					t.Fatal(err)
				}
				want, got := countedRate(g, b.Plan), p.Prices.FullRate(b)
				if want == 0 && name == "dgx1v" { // some of its GPUs have no link
					continue
				}
				checked[kind]++
				if math.Abs(got-want) > 1e-4*want {
					t.Errorf("%s, %v by %s: rate %v, the bytes sent allow %v", name, kind, c.Name(), got, want)
				}
			}
		}
	}
	for _, kind := range everyKind() {
		if kind != plan.Barrier && checked[kind] < 3 {
			t.Errorf("%v: %d plans", kind, checked[kind])
		}
	}
}

// TestReductionInSwitch: a bound names the switch whose reductions it leaves out; without such a switch it names none.
func TestReductionInSwitch(t *testing.T) {
	for name, want := range map[string]bool{
		"dgxh100": true, "dgxh100-x2": true, "dgxa100": false, "dgx2": false, "pcie8": false,
	} {
		g, _ := topo.Machine(name)
		p := plannerFor(t, g, Machine{Device: true}, Options{})
		for _, kind := range []plan.Kind{plan.AllReduce, plan.Reduce, plan.ReduceScatter} {
			c, err := p.Site.Certify(kind, 0)
			got := strings.Contains(c.Words, "switch (ports of kind \"nvls\") are not in it")
			if err != nil || got != want || (c.LeftOut != "") != want {
				t.Errorf("%s, %v: %q, %v", name, kind, c.Words, err)
			}
		}
	}
}

// TestPortCost: eight A6000 in pairs, whose PCIe within a socket of Intel's takes 6/5 of the bytes of the switches. Of
// 96 GB/s of four switches a tree takes 2 for every one of its three links, and 2.4 for those within a socket. One of
// them at least leads to the other socket, over 22 GB/s.
func TestPortCost(t *testing.T) {
	g := &topo.Graph{Ranks: 8}
	for b := range g.Ranks {
		for a := range b {
			l := topo.Link{A: a, B: b, GBytesPerSecond: 22, LatencyUs: 9}
			switch {
			case a/2 == b/2:
				l.GBytesPerSecond, l.LatencyUs = 48, 1.5
			case a/4 == b/4:
				l.GBytesPerSecond, l.LatencyUs, l.PortCost = 20, 7, 1.2
			}
			g.Links = append(g.Links, l)
		}
	}
	for i := 0; i < g.Ranks; i += 2 {
		g.Ports = append(g.Ports, topo.Port{Name: fmt.Sprint("switch ", i/2), Ranks: []int{i, i + 1}, GBytesPerSecond: 24})
	}
	g.Ports = append(g.Ports, topo.Port{Name: "sockets", Ranks: []int{0, 1, 2, 3}, GBytesPerSecond: 22})
	p := plannerFor(t, g, Machine{Device: true}, Options{})
	bound, err := p.Site.Certify(plan.AllReduce, -1)
	if err != nil {
		t.Fatal(err)
	}
	want := (96 + 22*(2.4-2)) / (3 * 2.4)
	c := choose(t, p, plan.AllReduce, -1, 256<<20)
	rate := countedRate(g, c.Chosen.Plan)
	if math.Abs(bound.Rate-want) > 1e-6*want || rate < 0.97*want || rate > want*(1+1e-6) {
		t.Errorf("%s carries %v GB/s, the bound is %v, want %v", c.Chosen.Name(), rate, bound.Rate, want)
	}
}

// countedRate returns the rate of a plan for 2 GiB; 0 where it joins ranks without a link.
func countedRate(g *topo.Graph, p *plan.Plan) float64 {
	const message = 2 << 30
	part := int64(message)
	if p.Kind.HasParts() {
		part /= int64(p.Size)
	}
	links, ports := make(map[[2]int]float64), make(map[[2]int]float64)
	index := g.LinkIndex()
	for i, share := range p.Shares() {
		bytes := float64(share.Span(part, 1, plan.Chunks{}, 0).Bytes)
		for _, track := range p.Lanes[i].Tracks {
			for _, s := range track.Steps {
				if !s.Op.Sends() {
					continue
				}
				from, to := track.Rank, int(s.To)
				links[[2]int{from, to}] += bytes
				bytes, i := bytes, index[topo.Pair(from, to)]
				if cost := g.Links[i].PortCost; cost > 0 {
					bytes *= cost
				}
				for k, port := range g.Ports {
					switch out, in := slices.Contains(port.Ranks, from), slices.Contains(port.Ranks, to); {
					case out && !in:
						ports[[2]int{k, 0}] += bytes
					case in && !out:
						ports[[2]int{k, 1}] += bytes
					}
				}
			}
		}
	}
	rate, rates := math.Inf(1), g.Rates()
	for link, bytes := range links {
		rate = min(rate, message/bytes*rates.At(link[0], link[1]))
	}
	for port, bytes := range ports {
		rate = min(rate, message/bytes*g.Ports[port[0]].GBytesPerSecond)
	}
	return rate
}
