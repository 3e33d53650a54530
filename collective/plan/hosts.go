package plan

import (
	"maps"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Places returns, for each of n ranks, its host and where it stands among the ranks there.
func Places(hosts [][]int, n int) (host, place []int) {
	host, place = make([]int, n), make([]int, n)
	for h, ranks := range hosts {
		for i, r := range ranks {
			host[r], place[r] = h, i
		}
	}
	return host, place
}

// Hosts returns the ranks of every host of g, rising, hosts in the order of
// their lowest rank.
func Hosts(g *topo.Graph) [][]int {
	return slices.SortedFunc(maps.Values(g.ByHost()), slices.Compare)
}
