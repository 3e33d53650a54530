package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/machines"
)

// network is a graph, and what it is.
type network struct {
	graph *topo.Graph
	about string
}

// networks returns all networks of the page.
func networks() []network {
	abilene, _ := machines.Get("abilene")
	dgx, _ := machines.Get("dgx1v")
	return []network{
		{abilene, "11 sites of a research network, 14 links of 10 Gbit/s (a machine of treerun)"},
		{random(8), "8 sites, a random mesh"},
		{random(12), "12 sites, a random mesh"},
		{random(20), "20 sites, a random mesh"},
		{mesh(), "4 hosts, a link of 100 to 800 Mbit/s between any two: the mesh of [several-hosts.md](several-hosts.md)"},
		{dgx, "8 GPUs, NVLinks of 25 and 50 GB/s (a machine of treerun)"},
	}
}

// random returns sites in a random mesh: a ring, and every other link with a chance
// of one in three. Links have 1 to 10 Gbit/s and 1 to 30 ms.
func random(sites int) *topo.Graph {
	const seed, gbit, ms = 5, 0.125, 1000.0
	from := rand.New(rand.NewPCG(seed, uint64(sites)))
	g := &topo.Graph{Name: fmt.Sprintf("mesh%d", sites), Ranks: sites}
	for b := range sites {
		g.Hosts = append(g.Hosts, b)
		for a := range b {
			if b-a == 1 || b-a == sites-1 || from.IntN(3) == 0 {
				rate, delay := gbit*float64(1+from.IntN(10)), ms*float64(1+from.IntN(30))
				g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: rate, LatencyUs: delay, Kind: "wan"})
			}
		}
	}
	return g
}

// mesh returns four hosts with a link between any two.
func mesh() *topo.Graph {
	g := &topo.Graph{Name: "mesh4", Ranks: 4, Hosts: []int{0, 1, 2, 3}}
	for a, row := range [][]float64{{800, 400, 200}, {100, 400}, {800}} { // Mbit/s, to the hosts after a
		for i, mbits := range row {
			g.Links = append(g.Links, topo.Link{A: a, B: a + 1 + i, GBytesPerSecond: mbits / 8000, LatencyUs: 30, Kind: "tcp"})
		}
	}
	return g
}
