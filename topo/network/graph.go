package network

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// The most links between hosts for which every rank gets one to every rank of
// other hosts, and for which it gets one to its like on every other host; the
// pairs of hosts have one each beyond.
const (
	maxFull  = 1 << 15
	maxAlike = 1 << 18
)

// Graph is the graph of all ranks: the links inside the hosts, given by ranks and made equal where they differ by
// noise, and those between hosts, which follow from n. hostOf gives the host of every rank, an index into n.Hosts, of
// which each has ranks; n is valid, and nil for one host.
//
// A rate that a host's ranks share is a port of all of them. Where a port limits a pair of hosts anyway, every rank of
// the one has a link to every rank of the other, each with the pair's rate; for many ranks only to that of the same
// place on its host, which takes nothing from the rate that the ports let through. A pair that is slower than the ports
// of its hosts has a way of its own, and links that share it would count it several times: there is one link, between
// ranks that take turns over the pairs of a host.
func Graph(hostOf []int, local []topo.Link, n *Network) (*topo.Graph, error) {
	g := &topo.Graph{Name: "measured", Ranks: len(hostOf), Hosts: hostOf, Links: slices.Clone(local)}
	topo.LevelLinks(g.Links, maxLimit) // a host is like another one
	if n == nil {
		return g, g.Validate()
	}
	ranks := make([][]int, len(n.Hosts)) // by host
	for r, h := range hostOf {
		ranks[h] = append(ranks[h], r)
	}
	port := cardRates(n, ranks)
	for h, rate := range port {
		if rate > 0 {
			g.Ports = append(g.Ports, topo.Port{Name: "card of " + n.name(h), Ranks: ranks[h], GBytesPerSecond: rate})
		}
	}
	g.Links = append(g.Links, hostLinks(n, ranks, port)...)
	return g, g.Validate()
}

// cardRates returns the rate of every host's card in GB/s, 0 for none.
func cardRates(n *Network, ranks [][]int) []float64 {
	port := make([]float64, len(ranks))
	for _, p := range n.Graph.Ports {
		port[p.Ranks[0]] = p.GBytesPerSecond
	}
	if len(ranks) == 2 && port[0] == 0 && port[1] == 0 && len(ranks[0])*len(ranks[1]) > 1 {
		port[0] = n.Graph.Links[0].GBytesPerSecond // all traffic of a host is with the other
	}
	return port
}

// name is the name of a host, for people; a second one of the same name gets its
// number.
func (n *Network) name(h int) string {
	for i, s := range n.Hosts {
		if i != h && s == n.Hosts[h] || s == "" {
			return fmt.Sprintf("host %d", h)
		}
	}
	return n.Hosts[h]
}

// hostLinks returns the links of ranks on different hosts, by host.
func hostLinks(n *Network, ranks [][]int, port []float64) (list []topo.Link) {
	full, alike := 0, 0
	for _, p := range n.Graph.Links {
		full += len(ranks[p.A]) * len(ranks[p.B])
		alike += min(len(ranks[p.A]), len(ranks[p.B]))
	}
	for _, p := range n.Graph.Links {
		a, b := ranks[p.A], ranks[p.B]
		add := func(x, y int) {
			l := p
			l.A, l.B = min(x, y), max(x, y)
			list = append(list, l)
		}
		// A port of one of the pair's hosts is as slow as the pair.
		limited := func(h int) bool { return port[h] > 0 && port[h] <= p.GBytesPerSecond }
		switch {
		case !limited(p.A) && !limited(p.B) || full > maxFull && alike > maxAlike:
			add(a[(p.B-1)%len(a)], b[p.A%len(b)]) // their places among the other's peers
		case full > maxFull:
			for i := range min(len(a), len(b)) {
				add(a[i], b[i])
			}
		default:
			for _, x := range a {
				for _, y := range b {
					add(x, y)
				}
			}
		}
	}
	return list
}
