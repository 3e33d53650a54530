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
	for _, l := range g.Links {
		a, aIn := number[l.A]
		b, bIn := number[l.B]
		if aIn && bIn {
			l.A, l.B = min(a, b), max(a, b)
			sub.Links = append(sub.Links, l)
		}
	}
	sub.Links = append(sub.Links, g.wiresAmong(members, number)...)
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

// wiresAmong returns the wires between hosts with members none of which has a
// member at each end, with new ends.
func (g *Graph) wiresAmong(members []int, number map[int]int) []Link {
	if len(g.Hosts) == 0 {
		return nil
	}
	first := make(map[int]int) // by host: its first member
	for i, r := range slices.Backward(members) {
		first[g.Hosts[r]] = i
	}
	kept := make(map[[2]int32]bool)
	best := make(map[[2]int32]*Link)
	var order [][2]int32
	for i := range g.Links {
		l := &g.Links[i]
		a, b := g.Hosts[l.A], g.Hosts[l.B]
		if l.Kind != TCP || a == b {
			continue
		}
		key := ordered(a, b)
		_, aIn := number[l.A]
		_, bIn := number[l.B]
		kept[key] = kept[key] || aIn && bIn
		if k := best[key]; k == nil || l.quicker(k) {
			if k == nil {
				order = append(order, key)
			}
			best[key] = l
		}
	}
	var list []Link
	for _, key := range order {
		a, aIn := first[int(key[0])]
		b, bIn := first[int(key[1])]
		if aIn && bIn && !kept[key] {
			l := *best[key]
			l.A, l.B = min(a, b), max(a, b)
			list = append(list, l)
		}
	}
	return list
}
