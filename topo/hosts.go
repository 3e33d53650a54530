package topo

import (
	"cmp"
	"slices"
)

// TCP is the kind of a link over a network. Between two hosts it is the way of
// all their ranks: a pair of ranks without a link of its own goes over the one
// that its hosts have, and where there are several of that kind between the same
// two hosts they are the same wire, as quick as the quickest of them. So a
// network of hosts may be one link per pair of them, between any two of their
// ranks. Hosts without a link between them reach each other over others, by the
// fewest hops. Ports that hold all ranks of a host are its cards.
const TCP = "tcp"

// Ways finds the links that join two ranks.
type Ways struct {
	g     *Graph
	own   map[[2]int32]int // by ranks: index of the link; nil until it is needed
	wires map[[2]int32]int // by hosts: the quickest link of kind TCP
	near  map[int][]int    // by host: those it has a wire to, rising
}

// NewWays looks up the links of g, which must be valid.
func NewWays(g *Graph) *Ways {
	w := &Ways{g: g, wires: make(map[[2]int32]int), near: make(map[int][]int)}
	for i := range g.Links {
		l := &g.Links[i]
		if l.Kind != TCP || g.Host(l.A) == g.Host(l.B) {
			continue
		}
		a, b := g.Host(l.A), g.Host(l.B)
		k, known := w.wires[Pair(a, b)]
		if !known {
			w.near[a], w.near[b] = append(w.near[a], b), append(w.near[b], a)
		}
		if !known || l.quicker(&g.Links[k]) {
			w.wires[Pair(a, b)] = i
		}
	}
	for _, list := range w.near {
		slices.Sort(list)
	}
	return w
}

// quicker reports whether l is preferred to k: for its rate, its latency or else its ranks.
func (l *Link) quicker(k *Link) bool {
	return cmp.Or(cmp.Compare(k.GBytesPerSecond, l.GBytesPerSecond), cmp.Compare(l.LatencyUs, k.LatencyUs),
		min(l.A, l.B)-min(k.A, k.B), max(l.A, l.B)-max(k.A, k.B)) < 0
}

// Hop is a link on the way from one rank to another. Back reports that it is used from the end B to the end A, or where
// it is of kind TCP between hosts from a rank of the host of B.
type Hop struct {
	Link int
	Back bool
}

// Route returns the links from rank a to rank b: their own, the one of their hosts, or those of several hosts on the
// way. Links of kind TCP between the same two hosts are equivalent. It returns nil where there is no way.
func (w *Ways) Route(a, b int) []Hop {
	if w.own == nil {
		w.own = w.g.LinkIndex()
	}
	i, own := w.own[Pair(a, b)]
	from, to := w.g.Host(a), w.g.Host(b)
	if own && (w.g.Links[i].Kind != TCP || from == to) {
		return []Hop{{i, w.g.Links[i].A != a}}
	}
	if from == to {
		return nil
	}
	if _, wired := w.wires[Pair(from, to)]; wired {
		return []Hop{w.wire(from, to)}
	}
	return w.over(from, to)
}

// wire is the hop between two hosts with a wire.
func (w *Ways) wire(from, to int) Hop {
	k := w.wires[Pair(from, to)]
	return Hop{k, w.g.Host(w.g.Links[k].A) != from}
}

// over returns the hops from host to host over others, the fewest, by the lowest
// hosts.
func (w *Ways) over(from, to int) []Hop {
	before := map[int]int{from: from}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		for _, v := range w.near[queue[0]] {
			if _, seen := before[v]; !seen {
				before[v] = queue[0]
				queue = append(queue, v)
			}
		}
	}
	if _, reached := before[to]; !reached {
		return nil
	}
	var hops []Hop
	for v := to; v != from; v = before[v] {
		hops = append(hops, w.wire(before[v], v))
	}
	slices.Reverse(hops)
	return hops
}

// BetweenHosts returns the graph whose ranks are the given hosts, all ranks of g
// together: a link has the rate of all links between its hosts, or the one of
// their TCP wire, and the least latency and port cost of them. Ports of whole hosts
// stay.
func (g *Graph) BetweenHosts(hosts [][]int) *Graph {
	host, _ := Places(hosts, g.Ranks)
	between := &Graph{Name: g.Name, Ranks: len(hosts)}
	index := make(map[[2]int32]int)    // by hosts: the place of their link
	wire := make(map[[2]int32]float64) // by hosts: the rate of their TCP wire so far
	for _, l := range g.Links {
		a, b := min(host[l.A], host[l.B]), max(host[l.A], host[l.B])
		if a == b {
			continue
		}
		pair := Pair(a, b)
		if _, known := index[pair]; !known {
			index[pair] = len(between.Links)
			between.Links = append(between.Links, Link{A: a, B: b, LatencyUs: l.LatencyUs, Kind: l.Kind, Source: l.Source,
				PortCost: l.PortCost})
		}
		k := &between.Links[index[pair]]
		if l.PortLoad() < k.PortLoad() {
			k.PortCost = l.PortCost
		}
		if l.Kind == TCP {
			k.GBytesPerSecond += max(0, l.GBytesPerSecond-wire[pair])
			wire[pair] = max(wire[pair], l.GBytesPerSecond)
		} else {
			k.GBytesPerSecond += l.GBytesPerSecond
		}
		k.LatencyUs = min(k.LatencyUs, l.LatencyUs)
	}
	slices.SortFunc(between.Links, func(x, y Link) int { return cmp.Or(x.A-y.A, x.B-y.B) })
	for _, p := range g.Ports {
		inside := make([]int, len(hosts)) // by host: its ranks in the port
		for _, r := range p.Ranks {
			inside[host[r]]++
		}
		p.Ranks = nil
		whole := true
		for h, n := range inside {
			if n > 0 {
				p.Ranks = append(p.Ranks, h)
				whole = whole && n == len(hosts[h])
			}
		}
		if whole && len(p.Ranks) < len(hosts) {
			between.Ports = append(between.Ports, p)
		}
	}
	return between
}

// Host returns the host of a rank.
func (g *Graph) Host(rank int) int {
	if len(g.Hosts) == 0 {
		return 0
	}
	return g.Hosts[rank]
}

// ByHost returns the ranks of every host, rising, hosts in the order of their lowest rank.
func (g *Graph) ByHost() (hosts [][]int) {
	place := make(map[int]int) // by host
	for r := range g.Ranks {
		i, known := place[g.Host(r)]
		if !known {
			i = len(hosts)
			place[g.Host(r)], hosts = i, append(hosts, nil)
		}
		hosts[i] = append(hosts[i], r)
	}
	return hosts
}

// Places returns, for each of n ranks, its host and its place among the ranks there.
func Places(hosts [][]int, n int) (host, place []int) {
	host, place = make([]int, n), make([]int, n)
	for h, ranks := range hosts {
		for i, r := range ranks {
			host[r], place[r] = h, i
		}
	}
	return host, place
}

// Among returns the part of g between some of its ranks, which become ranks 0, 1, ... in the order of members. It
// shares no memory with g. The wire of two hosts whose ends are no members joins the first members of both. A graph
// whose members are not connected with each other does not validate.
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
