package planner

import (
	"fmt"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// mbit is the rate of 1 Mbit/s in GB/s of payload.
const mbit = 1e6 / 8 * 0.956 / 1e9

// evenHosts is hosts with a card of 500 Mbit/s each.
func evenHosts(hosts, each int) *topo.Graph {
	return testutil.Hosts(hosts, each, testutil.Wires(500*mbit), testutil.Always(500*mbit))
}

// unevenHosts is four hosts with cards of 800, 400, 200 and 100 Mbit/s.
func unevenHosts(each int) *topo.Graph {
	cards := []float64{800 * mbit, 400 * mbit, 200 * mbit, 100 * mbit}
	wire := func(a, b int) float64 { return min(cards[a], cards[b]) }
	return testutil.Hosts(4, each, wire, func(h int) float64 { return cards[h] })
}

// meshedHosts is four hosts with a link of its own for every pair.
func meshedHosts(each int) *topo.Graph {
	rates := [4][4]float64{{0, 800, 400, 200}, {0, 0, 100, 400}, {0, 0, 0, 800}}
	return testutil.Hosts(4, each, func(a, b int) float64 { return rates[a][b] * mbit }, testutil.Always(0))
}

// allHosts returns networks of four hosts by a name: even and uneven ones, with one rank and
// two on each.
func allHosts() map[string]*topo.Graph {
	all := map[string]*topo.Graph{}
	for each := 1; each <= 2; each++ {
		all[fmt.Sprintf("even, %d each", each)] = evenHosts(4, each)
		all[fmt.Sprintf("mesh, %d each", each)] = meshedHosts(each)
		all[fmt.Sprintf("uneven cards, %d each", each)] = unevenHosts(each)
	}
	return all
}
