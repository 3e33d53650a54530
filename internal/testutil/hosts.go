package testutil

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Hosts returns a graph of hosts with the given number of ranks each, one host after the other, with a wire per pair of
// hosts at the rate that wire returns, none for 0, and a card for every host for which card returns a rate.
func Hosts(hosts, each int, wire func(a, b int) float64, card func(h int) float64) *topo.Graph {
	var of []int
	for h := range hosts {
		of = append(of, slices.Repeat([]int{h}, each)...)
	}
	return network(of, hosts, wire, card)
}

// network returns a graph of ranks; of holds the host of each.
func network(of []int, hosts int, wire func(a, b int) float64, card func(h int) float64) *topo.Graph {
	g := &topo.Graph{Name: "network", Ranks: len(of), Hosts: of}
	ranks := make([][]int, hosts)
	for r, h := range of {
		for _, q := range ranks[h] {
			g.Links = append(g.Links, topo.Link{A: q, B: r, GBytesPerSecond: 12, LatencyUs: 0.5, Kind: "shm",
				Source: topo.Measured})
		}
		ranks[h] = append(ranks[h], r)
	}
	for a := range hosts {
		for b := a + 1; b < hosts; b++ {
			if rate := wire(a, b); rate > 0 {
				g.Links = append(g.Links, topo.Link{A: ranks[a][0], B: ranks[b][0], GBytesPerSecond: rate, LatencyUs: 25,
					Kind: topo.TCP, Source: topo.Measured})
			}
		}
		if rate := card(a); rate > 0 {
			g.Ports = append(g.Ports, topo.Port{Name: fmt.Sprintf("card of host %d", a), GBytesPerSecond: rate,
				Ranks: ranks[a]})
		}
	}
	return g
}

// Always returns a function with the same rate for every card.
func Always(rate float64) func(int) float64 { return func(int) float64 { return rate } }

// Wires returns a function with the same rate for every wire.
func Wires(rate float64) func(int, int) float64 { return func(int, int) float64 { return rate } }

// ScatteredHosts returns a network of hosts with at least one rank each. Ranks are assigned to hosts at random, and
// wires and cards have random rates.
func ScatteredHosts(size, hosts int, rng *rand.Rand) *topo.Graph {
	of := rng.Perm(size)
	for r, h := range of {
		if h >= hosts {
			of[r] = rng.IntN(hosts)
		}
	}
	even := rng.IntN(3) == 0
	rate := func() float64 {
		if even {
			return 1
		}
		return float64(1 + rng.IntN(8))
	}
	var wires, cards []float64
	for range hosts * (hosts - 1) / 2 {
		wires = append(wires, rate())
	}
	for len(cards) < hosts && rng.IntN(2) == 0 {
		cards = append(cards, rate())
	}
	return network(of, hosts, func(a, b int) float64 { return wires[b*(b-1)/2+a] }, func(h int) float64 {
		if h < len(cards) {
			return cards[h]
		}
		return 0
	})
}

// MissingLinks returns the lowest rank of a tree whose link to its parent is missing in g, -1 if g has all links.
func MissingLinks(g *topo.Graph, t topo.Tree) int {
	index := g.LinkIndex()
	for v, p := range t.Parent {
		if _, has := index[topo.Pair(v, p)]; v != t.Root && !has {
			return v
		}
	}
	return -1
}
