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

// Graph is the graph of all ranks: the links inside the hosts, given by ranks and
// made equal where they differ by noise, and those between hosts, which follow
// from n. hostOf gives the host of every
// rank, an index into n.Hosts, of which each has ranks; n is valid, and nil for one host.
//
// What a host's ranks share is a port of all of them. Where a port limits a pair
// of hosts anyway, every rank of the one has a link to every rank of the other,
// each with the pair's rate; for many ranks only to that of the same place on its
// host, which takes nothing from what the ports let through. A pair that is
// slower than the ports of its hosts has a way of its own, and links that share
// it would count it several times: there is one link, between ranks that take
// turns over the pairs of a host.
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
	m := merge{n: n, ranks: ranks, g: g, port: make([]float64, len(n.Hosts))}
	m.ports()
	m.links()
	return g, g.Validate()
}

// merge is a Graph under way.
type merge struct {
	n     *Network
	ranks [][]int // by host
	g     *topo.Graph
	port  []float64 // by host, GB/s; 0: none
}

func (m *merge) ports() {
	for _, p := range m.n.Graph.Ports {
		m.port[p.Ranks[0]] = p.GBytesPerSecond
	}
	if len(m.n.Hosts) == 2 && m.port[0] == 0 && m.port[1] == 0 && len(m.ranks[0])*len(m.ranks[1]) > 1 {
		m.port[0] = m.n.Graph.Links[0].GBytesPerSecond // all traffic of a host is with the other
	}
	for h, rate := range m.port {
		if rate > 0 {
			m.g.Ports = append(m.g.Ports, topo.Port{Name: "card of " + m.n.name(h), Ranks: m.ranks[h], GBytesPerSecond: rate})
		}
	}
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

func (m *merge) links() {
	full, alike := 0, 0
	for _, p := range m.n.Graph.Links {
		full += len(m.ranks[p.A]) * len(m.ranks[p.B])
		alike += min(len(m.ranks[p.A]), len(m.ranks[p.B]))
	}
	for _, p := range m.n.Graph.Links {
		a, b := m.ranks[p.A], m.ranks[p.B]
		switch {
		case !m.limited(p) || full > maxFull && alike > maxAlike:
			m.link(a[(p.B-1)%len(a)], b[p.A%len(b)], p) // their places among the other's peers
		case full > maxFull:
			for i := range min(len(a), len(b)) {
				m.link(a[i], b[i], p)
			}
		default:
			for _, x := range a {
				for _, y := range b {
					m.link(x, y, p)
				}
			}
		}
	}
}

// limited reports whether a port of the pair's hosts is as slow as the pair.
func (m *merge) limited(p topo.Link) bool {
	least := func(h int) bool { return m.port[h] > 0 && m.port[h] <= p.GBytesPerSecond }
	return least(p.A) || least(p.B)
}

// link adds l between two ranks.
func (m *merge) link(a, b int, l topo.Link) {
	l.A, l.B = min(a, b), max(a, b)
	m.g.Links = append(m.g.Links, l)
}
