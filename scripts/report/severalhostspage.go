package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/internal/chart"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

func severalHostsFiles(r *record, charts pictures) (any, error) {
	v := view{record: r}
	var panels [][]chart.Panel
	for _, n := range []struct{ network, title string }{{"even", "500 Mbit/s, "}, {"open", "unshaped, "}} {
		var pair []chart.Panel
		for _, op := range []string{"allreduce", "broadcast"} {
			pair = append(pair, v.In(n.network).For(op).panel(n.title+op))
		}
		panels = append(panels, pair)
	}
	svg, err := chart.SVG("", 460, 360, panels...)
	charts["several-hosts.svg"] = svg
	return v, err
}

// site returns what the rows were measured on: no part for what is none.
func (v view) site() site {
	for _, s := range (&run{}).severalHosts() {
		if s.part == v.Part {
			return s
		}
	}
	return site{}
}

// Goal is the share of the bound that treerun is to reach, 0 where there is no goal.
func (v view) Goal() float64 {
	s := v.site()
	if v.Bytes < s.from {
		return 0
	}
	return s.goals[v.Op]
}

// Judged returns treerun's rows for which there is a goal.
func (v view) Judged() (list []view) {
	for _, s := range (&run{}).severalHosts() {
		for _, op := range []string{"allreduce", "broadcast"} {
			list = append(list, v.In(s.part).For(op).By(self).Sizes()...)
		}
	}
	return slices.DeleteFunc(list, func(v view) bool { return v.Goal() == 0 })
}

// Mbit is treerun's rate, in Mbit/s.
func (v view) Mbit() float64 { return mbit(v.Bytes, v.Of(self)) }

// mbit returns bytes in microseconds as Mbit/s.
func mbit(bytes int64, us float64) float64 { return float64(bytes) * 8 / us }

func titleOf(who string) string {
	for _, x := range implementations {
		if x.Name == who {
			return x.Title
		}
	}
	return ""
}

// Bound returns how fast a message can be done with at most, in Mbit/s of the payload that
// TCP carries over cards and links of such rates; NaN where there is no limit.
func (v view) Bound() float64 {
	n := v.site().network
	rate := func(text string) (v float64) {
		_, _ = fmt.Sscanf(text, "%gmbit", &v) // no rate: no link
		return v * payload
	}
	switch {
	case n.Mesh != nil:
		return boundOn(meshed(hosts, func(a, b int) float64 { return rate(n.Mesh[a][b]) }), v.Op)
	case n.Rates == nil:
		return math.NaN()
	}
	var rates []float64
	for i := range hosts {
		rates = append(rates, rate(n.Rates[min(i, len(n.Rates)-1)]))
	}
	return boundOn(cards(rates), v.Op)
}

// meshed returns hosts with a link of this rate between any two.
func meshed(n int, rate func(a, b int) float64) *topo.Graph {
	g := &topo.Graph{Ranks: n}
	for a := range n {
		g.Hosts = append(g.Hosts, a)
		for b := range a {
			if v := rate(a, b); v > 0 {
				g.Links = append(g.Links, topo.Link{A: b, B: a, GBytesPerSecond: v, LatencyUs: 30, Kind: "tcp"})
			}
		}
	}
	return g
}

// cards returns hosts with a card each of these rates, on a switch that does not block.
func cards(rates []float64) *topo.Graph {
	g := meshed(len(rates), func(int, int) float64 { return slices.Max(rates) })
	for h, rate := range rates {
		g.Ports = append(g.Ports, topo.Port{Name: fmt.Sprintf("card of host %d", h), Ranks: []int{h}, GBytesPerSecond: rate})
	}
	return g
}

// boundOn is the most that spanning trees can carry, in the unit of the graph's rates: each
// reduces up and broadcasts down its links, both ways at once, or broadcasts from host 0.
func boundOn(g *topo.Graph, op string) float64 {
	root := pack.BothWays
	if op == "broadcast" {
		root = 0
	}
	b, err := pack.FindBound(g, root)
	if err != nil {
		return math.NaN() // some host has no link
	}
	return b.Rate
}
