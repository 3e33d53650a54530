package testutil

import (
	"fmt"
	"math/rand/v2"

	"github.com/treerun/treerun/topo"
)

// Hosts returns a graph of hosts of so many ranks each, one host after the other, with a wire
// per pair of hosts of that rate, 0 for none, and a card for every host with a rate.
func Hosts(hosts, each int, wire func(a, b int) float64, card func(h int) float64) *topo.Graph {
	g := &topo.Graph{Name: "network", Ranks: hosts * each, Hosts: make([]int, hosts*each)}
	for r := range g.Ranks {
		g.Hosts[r] = r / each
		for q := r / each * each; q < r; q++ {
			g.Links = append(g.Links, topo.Link{A: q, B: r, GBytesPerSecond: 12, LatencyUs: 0.5, Kind: "shm",
				Source: topo.Measured})
		}
	}
	for a := range hosts {
		for b := a + 1; b < hosts; b++ {
			if rate := wire(a, b); rate > 0 {
				g.Links = append(g.Links, topo.Link{A: a * each, B: b * each, GBytesPerSecond: rate, LatencyUs: 25, Kind: topo.TCP,
					Source: topo.Measured})
			}
		}
		if rate := card(a); rate > 0 {
			p := topo.Port{Name: fmt.Sprintf("card of host %d", a), GBytesPerSecond: rate}
			for i := range each {
				p.Ranks = append(p.Ranks, a*each+i)
			}
			g.Ports = append(g.Ports, p)
		}
	}
	return g
}

// Always is the same rate for every card.
func Always(rate float64) func(int) float64 { return func(int) float64 { return rate } }

// Wires is the same rate for every wire.
func Wires(rate float64) func(int, int) float64 { return func(int, int) float64 { return rate } }

// ScatteredHosts returns a network of hosts that have one rank at least, each rank on
// any of them, with wires and cards of any rates.
func ScatteredHosts(size, hosts int, rng *rand.Rand) *topo.Graph {
	g := &topo.Graph{Ranks: size, Hosts: rng.Perm(size)}
	first := make([]int, hosts)
	for r, h := range g.Hosts {
		if h >= hosts {
			g.Hosts[r] = rng.IntN(hosts)
		} else {
			first[h] = r
		}
	}
	for r, h := range g.Hosts {
		for q := range r {
			if g.Hosts[q] == h {
				g.Links = append(g.Links, topo.Link{A: q, B: r, GBytesPerSecond: 10, LatencyUs: 1, Kind: "shm"})
			}
		}
	}
	even := rng.IntN(3) == 0
	rate := func() float64 {
		if even {
			return 1
		}
		return float64(1 + rng.IntN(8))
	}
	for a := range hosts {
		for b := range a {
			g.Links = append(g.Links, topo.Link{A: first[b], B: first[a], GBytesPerSecond: rate(), LatencyUs: 20,
				Kind: topo.TCP})
		}
	}
	for h := 0; h < hosts && rng.IntN(2) == 0; h++ {
		p := topo.Port{Name: fmt.Sprint("card ", h), GBytesPerSecond: rate()}
		for r, at := range g.Hosts {
			if at == h {
				p.Ranks = append(p.Ranks, r)
			}
		}
		g.Ports = append(g.Ports, p)
	}
	return g
}

// MissingLinks returns the lowest rank of a tree whose link to its parent g does not have, -1
// when g has them all.
func MissingLinks(g *topo.Graph, t topo.Tree) int {
	index := g.LinkIndex()
	for v, p := range t.Parent {
		if _, has := index[topo.Pair(v, p)]; v != t.Root && !has {
			return v
		}
	}
	return -1
}
