package peers

import (
	"slices"

	"github.com/treerun/treerun/topo/network"
)

// turn is the pairs of ranks that measure at the same time: pairs without a GPU in common.
type turn [][2]int

// schedule deals the pairs of GPUs to turns. The first rank of each GPU measures for
// all of its ranks; the first two of a GPU measure within it, all GPUs in one turn,
// the last.
func schedule(devices []string) []turn {
	var gpus [][]int // the ranks of each, in order
	place := make(map[string]int)
	for r, uuid := range devices {
		i, known := place[uuid]
		if !known {
			i = len(gpus)
			place[uuid], gpus = i, append(gpus, nil)
		}
		gpus[i] = append(gpus[i], r)
	}
	var turns []turn
	for _, pairs := range network.Rounds(len(gpus)) {
		var t turn
		for _, p := range pairs {
			a, b := gpus[p[0]][0], gpus[p[1]][0]
			t = append(t, [2]int{min(a, b), max(a, b)})
		}
		turns = append(turns, t)
	}
	var within turn
	for _, ranks := range gpus {
		if len(ranks) > 1 {
			within = append(within, [2]int(ranks[:2]))
		}
	}
	return slices.DeleteFunc(append(turns, within), func(t turn) bool { return t == nil })
}

// partner returns the rank that measures with rank in a turn, -1 for none.
func (t turn) partner(rank int) int {
	for _, p := range t {
		switch rank {
		case p[0]:
			return p[1]
		case p[1]:
			return p[0]
		}
	}
	return -1
}
