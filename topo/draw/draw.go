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

// Plan is what is drawn on a graph: trees, rings, or nothing.
type Plan struct {
	Title string      // a line of text above; empty: the graph's name
	Trees []topo.Tree // valid trees over the ranks of the graph
	Rings [][]int     // orders of the ranks; the last is followed by the first
	Rates []float64   // GB/s of every tree, then of every ring
	Notes []string    // sentences to stand below, such as what limits the rate

	// Hosts are the names of the graph's hosts, by number, for a picture of them;
	// empty: they go by their numbers.
	Hosts []string

	// Warnings are sentences to stand at the top, such as what the plan does not
	// keep of what was asked for.
	Warnings []string
}

// overlay is a tree or a ring on the graph.
type overlay struct {
	caption string
	root    int      // -1: a ring
	next    []int    // by rank: its parent, or the next of the ring; -1: none
	edges   [][2]int // from rank to next, where the graph has a link
}

// wire is a line of a picture between two nodes, which are ranks or, from their number on,
// ports: links that leave and enter by the same ports, or what a port holds.
type wire struct {
	a, b  int
	links []topo.Link // the quickest first; empty: port a holds b
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
	absent   [][2]int         // edges of overlays that the graph has no link for
	wires    []wire           // the quickest first, and then what ports hold
	order    []int            // the ports, the largest first
	height   []int            // of every port, above its ranks
}

func newPicture(g *topo.Graph, p Plan) *picture {
	x := &picture{g: g, plan: p, index: g.LinkIndex()}
	x.title = cmp.Or(p.Title, g.Name, numbers.Count(g.Ranks, "rank"))
	for i, t := range p.Trees {
		caption := fmt.Sprintf("tree %d, root %d, depth %d", i, t.Root, t.Depth())
		x.overlays = append(x.overlays, overlay{caption: caption, root: t.Root, next: t.Parent})
	}
	for i, order := range p.Rings {
		next := slices.Repeat([]int{-1}, g.Ranks)
		for k, v := range order {
			if len(order) > 2 || k+1 < len(order) { // two ranks are joined by one link
				next[v] = order[(k+1)%len(order)]
			}
		}
		x.overlays = append(x.overlays, overlay{caption: fmt.Sprintf("ring %d", i), root: -1, next: next})
	}
	var used []topo.Tree
	for i := range x.overlays {
		o := &x.overlays[i]
		o.caption += fmt.Sprintf(", %s GB/s", figure(p.Rates[i]))
		used = append(used, topo.Tree{Parent: o.next})
		for v, to := range o.next {
			if _, ok := x.index[topo.Pair(v, to)]; ok {
				o.edges = append(o.edges, [2]int{v, to})
			} else if to >= 0 {
				x.absent = append(x.absent, [2]int{v, to})
			}
		}
	}
	x.links, x.ports = g.Loads(used, p.Rates)
	x.connect()
	return x
}

// connect finds the wires: a link is drawn from the largest port that holds one of its ranks
// and not the other, since all that passes there does, to that of the other.
func (x *picture) connect() {
	ports, of := x.g.Ports, make([][]int, x.g.Ranks) // by rank: its ports, the largest first
	x.order = numbers.Order(len(ports), func(i, k int) int { return len(ports[k].Ranks) - len(ports[i].Ranks) })
	x.height = slices.Repeat([]int{1}, len(ports))
	for _, p := range x.order {
		for _, r := range ports[p].Ranks {
			of[r] = append(of[r], p)
		}
	}
	known := make(map[[2]int]int)
	join := func(a, b int, links ...topo.Link) {
		pair := [2]int{max(a, b), min(a, b)}
		k, ok := known[pair]
		if !ok {
			k = len(x.wires)
			known[pair], x.wires = k, append(x.wires, wire{a: pair[0], b: pair[1]})
		}
		x.wires[k].links = append(x.wires[k].links, links...)
	}
	outside := func(a, b int) int {
		for _, p := range of[a] {
			if !slices.Contains(of[b], p) {
				return x.g.Ranks + p
			}
		}
		return a
	}
	byRate := slices.Clone(x.g.Links)
	slices.SortStableFunc(byRate, func(a, b topo.Link) int { return cmp.Compare(b.GBytesPerSecond, a.GBytesPerSecond) })
	for _, l := range byRate {
		join(outside(l.A, l.B), outside(l.B, l.A), l)
	}
	for _, p := range slices.Backward(x.order) {
		for _, r := range ports[p].Ranks {
			inner := of[r][slices.Index(of[r], p)+1:]
			if len(inner) == 0 {
				join(x.g.Ranks+p, r)
				continue
			}
			x.height[p] = max(x.height[p], x.height[inner[0]]+1)
			join(x.g.Ranks+p, x.g.Ranks+inner[0])
		}
	}
}

// busiest returns the indexes of the loads that are used, busiest first.
func (x *picture) busiest(loads []topo.Load) []int {
	list := numbers.Order(len(loads), func(i, k int) int { return cmp.Compare(loads[k].Share(), loads[i].Share()) })
	return slices.DeleteFunc(list, func(i int) bool { return loads[i].Uses == 0 })
}

// figure writes a number for people: three digits that count, no exponent for
// the sizes that links have.
func figure(v float64) string {
	if v >= 1000 && v < 1e9 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// load writes what is asked of a link or a port, and its rate.
func (x *picture) load(l topo.Load) string {
	if len(x.overlays) == 0 {
		return figure(l.Capacity)
	}
	return figure(l.Rate) + " / " + figure(l.Capacity)
}

// hostRanks are the ranks of one host.
type hostRanks struct {
	name  string
	ranks []int
}

// hosts returns the hosts of the graph; one alone has no name.
func (x *picture) hosts() (list []hostRanks) {
	hosts := x.g.ByHost()
	for _, ranks := range hosts {
		name, h := "", x.g.Host(ranks[0])
		if len(hosts) > 1 {
			name = fmt.Sprintf("host %d", h)
		}
		if len(hosts) > 1 && h < len(x.plan.Hosts) {
			name = cmp.Or(x.plan.Hosts[h], name)
		}
		list = append(list, hostRanks{name, ranks})
	}
	return list
}
