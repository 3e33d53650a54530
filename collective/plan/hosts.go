package plan

import (
	"maps"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Hosts returns the ranks of every host of g, rising, hosts in the order of
// their lowest rank.
func Hosts(g *topo.Graph) [][]int {
	return slices.SortedFunc(maps.Values(g.ByHost()), slices.Compare)
}
