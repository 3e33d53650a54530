//go:build linux

package main

import (
	"fmt"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// packed is a graph of the page on packings, with its description.
type packed struct {
	*topo.Graph
	About string
	Bound pack.Bound
}

// packingPage is the data of the page: its networks.
type packingPage []packed

// packedNetworks returns all networks of the page: machines of treerun, and files. A random mesh is a ring plus every
// other link with a probability of one in three, each of 1 to 10 Gbit/s and 1 to 30 ms.
func packedNetworks(pictures) (page any, err error) {
	var all packingPage
	for _, n := range [][2]string{
		{"abilene", "11 sites of a research network, 14 links of 10 Gbit/s (a machine of treerun)"},
		{"mesh8", "8 sites, a random mesh"},
		{"mesh12", "12 sites, a random mesh"},
		{"mesh20", "20 sites, a random mesh"},
		{"mesh4", "4 hosts, a link of 100 to 800 Mbit/s between any two: the mesh of [several-hosts.md](several-hosts.md)"},
		{"dgx1v", "8 GPUs, NVLinks of 25 and 50 GB/s (a machine of treerun)"},
	} {
		g, known := topo.Machine(n[0])
		if !known {
			text, err := pages.ReadFile("pages/graphs/" + n[0] + ".json")
			if err != nil {
				return nil, err
			}
			if g, err = topo.ParseGraph(text); err != nil {
				return nil, err
			}
		}
		bound, err := pack.FindBound(g, pack.BothWays)
		if err != nil {
			return nil, err
		}
		all = append(all, packed{g, n[1], bound})
	}
	return all, nil
}

// Exact packs trees by the linear program, with limits of pack.Options, each given by its name and value.
func (n packed) Exact(limits ...any) (packing, error) { return n.pack(pack.Options{}, limits) }

// Greedy packs trees one after the other.
func (n packed) Greedy(limits ...any) (packing, error) {
	return n.pack(pack.Options{Greedy: true}, limits)
}

func (n packed) pack(o pack.Options, limits []any) (packing, error) {
	for i := 0; i+1 < len(limits); i += 2 {
		switch limits[i] {
		case "trees":
			o.MaxTrees = limits[i+1].(int)
		case "height":
			o.MaxHeight = float64(limits[i+1].(int))
		case "part": // of the bound
			o.MinRate = n.Bound.Rate / float64(limits[i+1].(int))
		case "links", "delay":
			o.HeightTolerance, o.HeightUs = limits[i+1].(float64), limits[i] == "delay"
		}
	}
	r, err := pack.Pack(n.Graph, pack.BothWays, o)
	return packing{r, n.Graph}, err
}

// Radius returns the least height of a spanning tree, in links.
func (n packed) Radius() (int, error) {
	r, err := pack.Pack(n.Graph, pack.BothWays, pack.Options{MaxHeight: 1e-9}) // loosened to the least possible
	return packing{r, n.Graph}.Height(), err
}

// Fastest returns the share of the bound that the k fastest trees of a greedy search have, for the best of six quanta.
func (n packed) Fastest(k int) (float64, error) {
	best := 0.0
	for part := 64; part > 1; part /= 2 {
		r, err := n.Greedy("part", part)
		if err != nil {
			return 0, err
		}
		if r.Note != "" {
			continue // no tree is as fast
		}
		rate := 0.0
		for _, v := range r.Rates[:min(k, len(r.Rates))] {
			rate += v
		}
		best = max(best, rate/n.Bound.Rate)
	}
	return best, nil
}

// packing is the result of a packing, with its graph.
type packing struct {
	*pack.Result
	on *topo.Graph
}

// Height returns the height of the highest tree, in links.
func (p packing) Height() int {
	most := 0
	for i := range p.Trees {
		most = max(most, p.Trees[i].Depth())
	}
	return most
}

// Ms returns the same in milliseconds of delay.
func (p packing) Ms() float64 {
	most, index := 0.0, p.on.LinkIndex()
	for _, t := range p.Trees {
		for v := range t.Parent {
			us := 0.0
			for up := t.Parent[v]; up >= 0; v, up = up, t.Parent[up] {
				us += p.on.Links[index[topo.Pair(v, up)]].LatencyUs
			}
			most = max(most, us)
		}
	}
	return most / 1000
}

// Share returns the rate as a share of the bound in percent.
func (p packing) Share() string { return cut(p.Ratio) }

// cut formats a share of at most 1 in percent, truncated and not rounded; only a share of 1 gives 100.
func cut(share float64) string { return fmt.Sprint(float64(int(share*1000+1e-3)) / 10) }

func verdict(holds bool, yes, no string) string {
	if holds {
		return yes
	}
	return no
}
