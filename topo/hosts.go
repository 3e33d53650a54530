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
	own   map[[2]int32]int32 // by ranks, lower first: index of the link
	wires map[[2]int32]int32 // by hosts, lower first: the quickest link of kind TCP
	near  map[int][]int      // by host: those it has a wire to, rising
}

// NewWays looks up the links of g, which must be valid.
func NewWays(g *Graph) *Ways {
	w := &Ways{g: g, own: make(map[[2]int32]int32, len(g.Links)), wires: make(map[[2]int32]int32), near: make(map[int][]int)}
	for i, l := range g.Links {
		w.own[ordered(l.A, l.B)] = int32(i)
		a, b := w.host(l.A), w.host(l.B)
		if l.Kind != TCP || a == b {
			continue
		}
		k, known := w.wires[ordered(a, b)]
		if !known {
			w.near[a], w.near[b] = append(w.near[a], b), append(w.near[b], a)
		}
		if !known || l.quicker(&g.Links[k]) {
			w.wires[ordered(a, b)] = int32(i)
		}
	}
	for _, list := range w.near {
		slices.Sort(list)
	}
	return w
}

// quicker reports whether l is to be preferred to k: for its rate, its latency
// or else its ranks.
func (l *Link) quicker(k *Link) bool {
	return cmp.Or(cmp.Compare(k.GBytesPerSecond, l.GBytesPerSecond), cmp.Compare(l.LatencyUs, k.LatencyUs),
		min(l.A, l.B)-min(k.A, k.B), max(l.A, l.B)-max(k.A, k.B)) < 0
}

func ordered(a, b int) [2]int32 { return [2]int32{int32(min(a, b)), int32(max(a, b))} }

func (w *Ways) host(r int) int {
	if len(w.g.Hosts) == 0 {
		return 0
	}
	return w.g.Hosts[r]
}

// Hop is a link on the way from one rank to another. Back says that it is used
// from the end B to the end A, or where it is of kind TCP between hosts from a
// rank of the host of B.
type Hop struct {
	Link int
	Back bool
}

// Route returns the links from rank a to rank b: their own, the one of their
// hosts, or those of several hosts on the way. Links of kind TCP between the same
// two hosts are all the same. It returns nil where there is no way.
func (w *Ways) Route(a, b int) []Hop {
	i, own := w.own[ordered(a, b)]
	from, to := w.host(a), w.host(b)
	if own && (w.g.Links[i].Kind != TCP || from == to) {
		return []Hop{{int(i), w.g.Links[i].A != a}}
	}
	if from == to {
		return nil
	}
	if _, wired := w.wires[ordered(from, to)]; wired {
		return []Hop{w.wire(from, to)}
	}
	return w.over(from, to)
}

// wire is the hop between two hosts with a wire.
func (w *Ways) wire(from, to int) Hop {
	k := w.wires[ordered(from, to)]
	return Hop{int(k), w.host(w.g.Links[k].A) != from}
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

// Inside returns what g has between some ranks of one host, which get the numbers
// of their places, as a graph of one host. Ports that hold all of them, or none,
// are left out.
func (g *Graph) Inside(ranks []int) *Graph {
	part := g.Among(ranks)
	part.Name, part.Hosts = "", nil
	return part
}

// BetweenHosts returns the graph whose ranks are the given hosts, all ranks of g
// together: a link has the rate of all links between its hosts, or the one of
// their TCP wire, and the latency of the quickest of them. Ports of whole hosts
// stay.
func (g *Graph) BetweenHosts(hosts [][]int) *Graph {
	host := make([]int, g.Ranks)
	for h, ranks := range hosts {
		for _, r := range ranks {
			host[r] = h
		}
	}
	between := &Graph{Name: g.Name, Ranks: len(hosts)}
	type joint struct {
		at   int     // index of the link
		wire float64 // rate of the TCP wire so far
	}
	joints := make(map[[2]int32]*joint)
	for _, l := range g.Links {
		a, b := min(host[l.A], host[l.B]), max(host[l.A], host[l.B])
		if a == b {
			continue
		}
		j := joints[ordered(a, b)]
		if j == nil {
			j = &joint{at: len(between.Links)}
			joints[ordered(a, b)] = j
			between.Links = append(between.Links, Link{A: a, B: b, LatencyUs: l.LatencyUs, Kind: l.Kind, Source: l.Source})
		}
		k := &between.Links[j.at]
		more := l.GBytesPerSecond
		if l.Kind == TCP {
			more = max(0, l.GBytesPerSecond-j.wire)
			j.wire = max(j.wire, l.GBytesPerSecond)
		}
		k.GBytesPerSecond += more
		k.LatencyUs = min(k.LatencyUs, l.LatencyUs)
	}
	slices.SortFunc(between.Links, func(x, y Link) int { return cmp.Or(x.A-y.A, x.B-y.B) })
	for _, p := range g.Ports {
		if list, whole := wholeHosts(p.Ranks, host, hosts); whole && len(list) < len(hosts) {
			p.Ranks = list
			between.Ports = append(between.Ports, p)
		}
	}
	return between
}

// wholeHosts returns the hosts of ranks, and whether ranks has all of each.
func wholeHosts(ranks, host []int, hosts [][]int) (list []int, whole bool) {
	count := make(map[int]int)
	for _, r := range ranks {
		count[host[r]]++
	}
	whole = true
	for h, n := range count {
		list = append(list, h)
		whole = whole && n == len(hosts[h])
	}
	slices.Sort(list)
	return list, whole
}
