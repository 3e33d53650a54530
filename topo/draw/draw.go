// Package draw shows a topo.Graph, and the trees and rings of a plan on it, to
// people: as text with a table of loads (Text), as a Graphviz file (DOT) and as
// a picture (SVG).
//
// It is pure, as topo is: it returns strings, reads nothing, and the same input
// gives the same output. It imports topo only; commands and reports import it.
package draw

import (
	"fmt"
	"maps"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// Plan is what is drawn on a graph: trees, rings, or nothing.
type Plan struct {
	Title string      // a line of text above; empty: the graph's name
	Trees []topo.Tree // valid trees over the ranks of the graph
	Rings [][]int     // orders of the ranks; the last is followed by the first
	Rates []float64   // GB/s of every tree, then of every ring; nil: not known, uses are counted
	Notes []string    // sentences to stand below, such as what limits the rate

	// Hosts are the names of the graph's hosts, by number, for a picture of them;
	// empty: they go by their numbers.
	Hosts []string

	// Warnings are sentences to stand at the top, such as what the plan does not
	// keep of what was asked for.
	Warnings []string
}

// strand is a tree or a ring as its links.
type strand struct {
	name  string
	root  int      // -1: a ring
	edges [][2]int // from the child to the parent, or onwards in the ring
	rate  float64  // GB/s, 0: not known
	depth int
}

func strands(p Plan) []strand {
	var list []strand
	for i, t := range p.Trees {
		s := strand{name: fmt.Sprintf("tree %d", i), root: t.Root, depth: t.Depth()}
		for v, up := range t.Parent {
			if up >= 0 {
				s.edges = append(s.edges, [2]int{v, up})
			}
		}
		list = append(list, s)
	}
	for i, order := range p.Rings {
		s := strand{name: fmt.Sprintf("ring %d", i), root: -1}
		for k, v := range order {
			next := order[(k+1)%len(order)]
			if next != v && (len(order) > 2 || k == 0) {
				s.edges = append(s.edges, [2]int{v, next})
			}
		}
		list = append(list, s)
	}
	for i := range list {
		if p.Rates != nil {
			list[i].rate = p.Rates[i]
		}
	}
	return list
}

// caption names a strand in one line.
func (s strand) caption() string {
	text := s.name
	if s.root >= 0 {
		text += fmt.Sprintf(", root %d, depth %d", s.root, s.depth)
	}
	if s.rate > 0 {
		text += fmt.Sprintf(", %s GB/s", figure(s.rate))
	}
	return text
}

// wire is a link of the graph with what the strands ask of it.
type wire struct {
	topo.Link
	topo.Load
	lanes []lane
}

// lane is one strand on a wire.
type lane struct {
	strand   int
	from, to int
}

// picture is a graph and a plan with the loads worked out.
type picture struct {
	g       *topo.Graph
	plan    Plan
	strands []strand
	wires   []wire         // in the order of the graph's links
	index   map[[2]int]int // by key: the place in wires
	ports   []topo.Load    // in the order of the graph's ports
	absent  [][2]int       // edges of strands that the graph has no link for
}

func newPicture(g *topo.Graph, p Plan) *picture {
	x := &picture{g: g, plan: p, strands: strands(p), ports: make([]topo.Load, len(g.Ports)), index: make(map[[2]int]int, len(g.Links))}
	for i, l := range g.Links {
		l.A, l.B = min(l.A, l.B), max(l.A, l.B)
		x.index[key(l.A, l.B)] = i
		x.wires = append(x.wires, wire{Link: l, Load: topo.Load{Capacity: l.GBytesPerSecond}})
	}
	for i, port := range g.Ports {
		x.ports[i].Capacity = port.GBytesPerSecond
	}
	crossed := g.Crossed()
	for s, strand := range x.strands {
		for _, e := range strand.edges {
			i, ok := x.index[key(e[0], e[1])]
			if !ok {
				x.absent = append(x.absent, e)
				continue
			}
			w := &x.wires[i]
			w.Uses++
			w.Rate += strand.rate
			w.lanes = append(w.lanes, lane{s, e[0], e[1]})
			for _, p := range crossed[i] {
				x.ports[p].Uses++
				x.ports[p].Rate += strand.rate
			}
		}
	}
	return x
}

func key(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

// rated reports whether the rates of the strands are known.
func (x *picture) rated() bool { return x.plan.Rates != nil }

// title is the line above.
func (x *picture) title() string {
	switch {
	case x.plan.Title != "":
		return x.plan.Title
	case x.g.Name != "":
		return x.g.Name
	}
	return numbers.Count(x.g.Ranks, "rank")
}

// busy orders loads: the busiest first.
func (x *picture) busy(a, b topo.Load) int {
	p, q := a.Congestion(), b.Congestion()
	if x.rated() {
		p, q = a.Share(), b.Share()
	}
	switch {
	case p > q:
		return -1
	case p < q:
		return 1
	}
	return 0
}

// busiest returns the indexes of the loads that are used, busiest first.
func (x *picture) busiest(n int, load func(int) topo.Load) []int {
	var list []int
	for i := range n {
		if load(i).Uses > 0 {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return x.busy(load(a), load(b)) })
	return list
}

// figure writes a number for people: three digits that count, no exponent for
// the sizes that links have.
func figure(v float64) string {
	if v >= 1000 && v < 1e9 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// load writes what is asked of a link or a port, and its rate: the load when the
// rates of the strands are known, otherwise the uses.
func (x *picture) load(l topo.Load) string {
	rate := figure(l.Capacity)
	switch {
	case len(x.strands) == 0:
		return rate
	case x.rated():
		return figure(l.Rate) + " / " + rate
	}
	return fmt.Sprintf("%d / %s", l.Uses, rate)
}

// hostRanks are the ranks of one host.
type hostRanks struct {
	host  int
	ranks []int
}

// hostsOf returns the hosts of g, rising; one for a graph that has none.
func hostsOf(g *topo.Graph) []hostRanks {
	ranks := map[int][]int{}
	for r := range g.Ranks {
		h := 0
		if len(g.Hosts) > 0 {
			h = g.Hosts[r]
		}
		ranks[h] = append(ranks[h], r)
	}
	var list []hostRanks
	for _, h := range slices.Sorted(maps.Keys(ranks)) {
		list = append(list, hostRanks{h, ranks[h]})
	}
	return list
}

// hostName is what a host is called, cut to so many characters.
func (x *picture) hostName(host, most int) string {
	if host >= len(x.plan.Hosts) || x.plan.Hosts[host] == "" {
		return fmt.Sprintf("host %d", host)
	}
	name := []rune(x.plan.Hosts[host])
	if len(name) > most {
		name = append(name[:most-1:most-1], '…')
	}
	return string(name)
}
