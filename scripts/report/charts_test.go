//go:build linux

package main

import (
	"fmt"

	"github.com/treerun/treerun/internal/chart"
)

// implementation is an implementation with its display name.
type implementation struct{ Name, Title string }

// implementations are in the order of columns and legends; the index of one selects its look in charts.
var implementations = []implementation{
	{ownChoice, "treerun"}, {"openmpi", "Open MPI"}, {"openmpi:ring", "Open MPI, ring"}, {"mpich", "MPICH"},
	{"gloo", "Gloo"}, {"gloo:hd", "Gloo, hd"}, {"treerun-alloc", "treerun, Alloc"},
	{"openmpi:core", "Open MPI, bound"}, {"openmpi:collsm", "Open MPI, coll_sm"}, {"openmpi:nocma", "Open MPI, no CMA"},
	{"mpich:gather", "MPICH, release_gather"},
}

func titleOf(who string) string {
	for _, x := range implementations {
		if x.Name == who {
			return x.Title
		}
	}
	return ""
}

// panel returns a chart of the times of all implementations over size.
func (v view) panel(title string) chart.Panel {
	p := chart.Panel{Title: title, X: "message (bytes)", Y: "time (µs)", Sizes: true}
	for _, x := range implementations {
		c := chart.Curve{Name: x.Title}
		for _, s := range v.By(x.Name).Sizes() {
			c.Points = append(c.Points, chart.Point{X: float64(s.Bytes), Y: s.Us()})
		}
		p.Curves = append(p.Curves, c)
	}
	return p
}

func oneHostCharts(v view, charts pictures) error {
	for op, title := range map[string]string{"allreduce": "AllReduce", "broadcast": "Broadcast"} {
		var panels, ratios []chart.Panel
		for _, np := range v.In("sweep").Ranks() {
			p := np.For(op).panel(fmt.Sprintf("%d ranks", np.NP))
			panels, ratios = append(panels, p), append(ratios, p.Over(titleOf(ownChoice)))
		}
		if len(panels) == 0 {
			break // a truncated record
		}
		svg, err := chart.SVG(title+", float32, one host", 400, 340, panels, ratios)
		if err != nil {
			return err
		}
		charts["one-host-"+op+".svg"] = svg
	}
	return nil
}

func severalHostsCharts(v view, charts pictures) error {
	var panels [][]chart.Panel
	for _, n := range []struct{ network, title string }{{"even", "500 Mbit/s, "}, {"open", "unshaped, "}} {
		for _, op := range []string{"allreduce", "broadcast"} {
			p := v.In(n.network).For(op).panel(n.title + op)
			panels = append(panels, []chart.Panel{p, p.Over(titleOf(ownChoice))})
		}
	}
	svg, err := chart.SVG("AllReduce and Broadcast, float32, several hosts", 460, 310, panels...)
	charts["several-hosts.svg"] = svg
	return err
}
