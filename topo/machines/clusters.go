package machines

import (
	"fmt"

	"github.com/treerun/treerun/topo"
)

// railUs is the latency of a rail in microseconds: InfiniBand.
const railUs = 14

// cluster is a number of equal hosts, joined by rails: every GPU has a card of
// its own, and card i of every host is linked with card i of every other.
type cluster struct {
	host  string  // a machine
	hosts int     // of it
	card  float64 // GB/s each way
}

// clusters has the machines that are several hosts of another one, by name.
var clusters = map[string]cluster{
	"dgxa100-x2": {"dgxa100", 2, 25},
	"dgxa100-x4": {"dgxa100", 4, 25},
	"dgxh100-x2": {"dgxh100", 2, 50},
	"dgxh100-x4": {"dgxh100", 4, 50},
	"mi250-x2":   {"mi250", 2, 16},
}

// graph returns the graph of the cluster. A port of one GPU counts its card,
// too. Between more than two hosts a card has several links: then a port per
// host holds the sum of its cards, as no port can hold one card beside the
// GPU's other links.
func (c cluster) graph(name string) *topo.Graph {
	host := graph(c.host)
	n := host.Ranks
	g := &topo.Graph{Name: name, Ranks: n * c.hosts}
	for h := range c.hosts {
		var ranks []int
		for r := range n {
			g.Hosts = append(g.Hosts, h)
			ranks = append(ranks, h*n+r)
		}
		for _, l := range host.Links {
			l.A, l.B = h*n+l.A, h*n+l.B
			g.Links = append(g.Links, l)
		}
		for other := range h {
			for r := range n {
				rail := topo.Link{A: other*n + r, B: h*n + r, GBytesPerSecond: c.card, LatencyUs: railUs, Kind: "infiniband"}
				g.Links = append(g.Links, rail)
			}
		}
		for _, p := range host.Ports {
			p.Name = fmt.Sprintf("host %d: %s, and card", h, p.Name)
			p.Ranks, p.GBytesPerSecond = []int{h*n + p.Ranks[0]}, p.GBytesPerSecond+c.card
			g.Ports = append(g.Ports, p)
		}
		if c.hosts > 2 {
			sum := topo.Port{Name: fmt.Sprintf("cards of host %d", h), Ranks: ranks, GBytesPerSecond: float64(n) * c.card}
			g.Ports = append(g.Ports, sum)
		}
	}
	return g
}
