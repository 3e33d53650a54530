// Package draw is not for users: it shows a topo.Graph, and the trees and rings of a plan on
// it, to people: as text with a table of loads (Text) and as a picture (SVG).
//
// It is pure, as topo is: it returns strings, reads nothing, and the same input
// gives the same output.
package draw

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// Plan is the plan that is drawn on a graph: trees, rings, or nothing.
type Plan struct {
	Title string      // a line of text above; empty: the graph's name
	Trees []topo.Tree // valid trees over the ranks and links of the graph
	Rings [][]int     // orders of the ranks; each sends to the next, and the last one to the first
	Rates []float64   // GB/s of every tree, then of every ring
	Notes []string    // sentences to stand below, such as the limit of the rate

	// Hosts are the names of the graph's hosts, by number, for a picture of them;
	// empty: they go by their numbers.
	Hosts []string

	// Warnings are sentences to stand at the top, such as the requirements that the plan does not meet.
	Warnings []string
}

// overlay is a tree or a ring on the graph.
type overlay struct {
	caption string
	root    int   // -1: a ring
	next    []int // by rank: its parent, or the next of the ring; -1: none
}

// picture is a graph and a plan with the loads worked out.
type picture struct {
	g        *topo.Graph
	plan     Plan
	title    string
	overlays []overlay
	index    map[[2]int32]int // by the ranks of a link: its place in g.Links
	links    []topo.Load      // in the order of the graph's links
	ports    []topo.Load      // in the order of the graph's ports
}

func newPicture(g *topo.Graph, p Plan) *picture {
	x := &picture{g: g, plan: p, index: g.LinkIndex()}
	x.title = cmp.Or(p.Title, g.Name, numbers.Count(g.Ranks, "rank"))
	for i, t := range p.Trees {
		caption := fmt.Sprintf("tree %d, root %d, depth %d", i, t.Root, t.Depth())
		x.overlays = append(x.overlays, overlay{caption, t.Root, t.Parent})
	}
	for i, order := range p.Rings {
		next := slices.Repeat([]int{-1}, g.Ranks)
		for k, v := range order {
			if len(order) > 2 || k+1 < len(order) { // two ranks are joined by one link
				next[v] = order[(k+1)%len(order)]
			}
		}
		x.overlays = append(x.overlays, overlay{fmt.Sprintf("ring %d", i), -1, next})
	}
	for i := range x.overlays {
		x.overlays[i].caption += fmt.Sprintf(", %s GB/s", figure(p.Rates[i]))
	}
	x.links, x.ports = g.Loads(p.Trees, p.Rates)
	x.loadRings(p.Rates[len(p.Trees):])
	return x
}

// loadRings adds the loads of the rings, each of which has one direction of its links: the larger of a link's two, and
// the half of what crosses a port, as a ring that leaves comes back.
func (x *picture) loadRings(rates []float64) {
	loads, crossed := make([][2]float64, len(x.links)), x.g.Crossed()
	for i, order := range x.plan.Rings {
		for k, v := range order {
			link, has := x.index[topo.Pair(v, order[(k+1)%len(order)])]
			if !has {
				continue
			}
			way := 0
			if x.g.Links[link].B == v {
				way = 1
			}
			loads[link][way] += rates[i]
			x.links[link].Uses++
			for _, p := range crossed[link] {
				x.ports[p].Uses++
				x.ports[p].Rate += float64(rates[i] / 2)
			}
		}
	}
	for link, ways := range loads {
		x.links[link].Rate += max(ways[0], ways[1])
	}
}

// busiest returns the indexes of the loads that are used, busiest first.
func (x *picture) busiest(loads []topo.Load) []int {
	list := numbers.Order(len(loads), func(i, k int) int { return cmp.Compare(loads[k].Share(), loads[i].Share()) })
	return slices.DeleteFunc(list, func(i int) bool { return loads[i].Uses == 0 })
}

// figure writes a number for people: three significant digits, no exponent for the sizes that links have.
func figure(v float64) string {
	if v >= 1000 && v < 1e9 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// load writes the load of a link or a port, and its rate.
func (x *picture) load(l topo.Load) string {
	if len(x.overlays) == 0 {
		return figure(l.Capacity)
	}
	return figure(l.Rate) + " / " + figure(l.Capacity)
}
