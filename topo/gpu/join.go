package gpu

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Part is what is known of the GPUs of one host.
type Part struct {
	Ranks []int       // of the host, all of them, ascending
	Graph *topo.Graph // of as many ranks: its rank i is Ranks[i]
}

// Join returns the graph of ranks with GPUs on several hosts: what ranks, which
// knows the network, says of links and ports between hosts, and what parts says of
// those within. A port within a host is called by the host, too.
func Join(ranks *topo.Graph, parts []Part) (*topo.Graph, error) {
	g := &topo.Graph{Name: "gpus", Ranks: ranks.Ranks, Hosts: slices.Clone(ranks.Hosts)}
	host := ranks.Host
	for _, l := range ranks.Links {
		if host(l.A) != host(l.B) {
			g.Links = append(g.Links, l)
		}
	}
	hosts := ranks.ByHost()
	for _, p := range ranks.Ports {
		in := func(r int) bool { return slices.Contains(p.Ranks, r) }
		split := func(of []int) bool { // has some ranks in the port, not all
			return slices.ContainsFunc(of, in) && slices.ContainsFunc(of, func(r int) bool { return !in(r) })
		}
		if !slices.ContainsFunc(hosts, split) {
			g.Ports = append(g.Ports, p)
		}
	}
	for _, part := range parts {
		for _, l := range part.Graph.Links {
			l.A, l.B = part.Ranks[l.A], part.Ranks[l.B]
			g.Links = append(g.Links, l)
		}
		for _, p := range part.Graph.Ports {
			at := make([]int, len(p.Ranks))
			for k, r := range p.Ranks {
				at[k] = part.Ranks[r]
			}
			p.Ranks = at
			if len(parts) > 1 {
				p.Name = fmt.Sprintf("host %d: %s", host(part.Ranks[0]), p.Name)
			}
			g.Ports = append(g.Ports, p)
		}
	}
	slices.SortFunc(g.Links, func(a, b topo.Link) int { return cmp.Or(a.A-b.A, a.B-b.B) })
	return g, g.Validate()
}

// Fill returns g, a graph of the ranks on these GPUs of m, with a link through the host's
// memory for every pair that has none: what does not go over NVLink goes there, or
// over PCIe, at no less. That such links share slots and sockets with each other is
// not in the graph, as Graph says.
func Fill(g *topo.Graph, m *Machine, devices []string) (*topo.Graph, error) {
	b, err := newBuilder(m, devices)
	if err != nil {
		return nil, err
	}
	links := g.LinkIndex()
	full := *g
	full.Links = append(slices.Clone(g.Links), b.pairs(func(x, y int) topo.Link {
		if _, has := links[topo.Pair(x, y)]; has {
			return topo.Link{}
		}
		return b.host(x, y)
	})...)
	slices.SortFunc(full.Links, func(a, b topo.Link) int { return cmp.Or(a.A-b.A, a.B-b.B) })
	return &full, full.Validate()
}
