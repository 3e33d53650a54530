package topo

import (
	"cmp"
	"slices"
)

// Among returns what g has between some of its ranks, which become ranks 0, 1,
// ... in the order of members. It shares no memory with g. The wire of two hosts
// whose ends are no members joins the first members of both. A graph whose members
// are not connected with each other does not validate.
func (g *Graph) Among(members []int) *Graph {
	number := make(map[int]int, len(members))
	for i, r := range members {
		number[r] = i
	}
	sub := *g
	sub.Ranks, sub.Links, sub.Ports, sub.Hosts = len(members), nil, nil, nil
	ways := NewWays(g)
	wired := make(map[[2]int32]bool) // by hosts: members at both ends have a wire
	for _, l := range g.Links {
		a, aIn := number[l.A]
		b, bIn := number[l.B]
		if aIn && bIn {
			if l.Kind == TCP {
				wired[Pair(g.Host(l.A), g.Host(l.B))] = true
			}
			l.A, l.B = min(a, b), max(a, b)
			sub.Links = append(sub.Links, l)
		}
	}
	first := make(map[int32]int) // by host: its first member
	for i, r := range slices.Backward(members) {
		first[int32(g.Host(r))] = i
	}
	for hosts, i := range ways.wires {
		a, aIn := first[hosts[0]]
		b, bIn := first[hosts[1]]
		if aIn && bIn && !wired[hosts] {
			l := g.Links[i]
			l.A, l.B = min(a, b), max(a, b)
			sub.Links = append(sub.Links, l)
		}
	}
	slices.SortFunc(sub.Links, func(a, b Link) int { return cmp.Or(a.A-b.A, a.B-b.B) })
	for _, p := range g.Ports {
		var ranks []int
		for _, r := range p.Ranks {
			if i, in := number[r]; in {
				ranks = append(ranks, i)
			}
		}
		if len(ranks) > 0 && len(ranks) < len(members) {
			slices.Sort(ranks)
			p.Ranks = ranks
			sub.Ports = append(sub.Ports, p)
		}
	}
	for _, r := range members {
		if len(g.Hosts) > 0 {
			sub.Hosts = append(sub.Hosts, g.Hosts[r])
		}
	}
	return &sub
}
