package peers

import "github.com/treerun/treerun/topo/network"

// turn is what ranks do at the same time: pairs without a GPU in common.
type turn [][2]int

// schedule deals the pairs of GPUs to turns. The first rank of each GPU measures for
// all of its ranks; the first two of a GPU measure within it, all GPUs in one turn,
// the last.
func schedule(devices []string) []turn {
	first, second := firsts(devices)
	var turns []turn
	for _, pairs := range network.Rounds(len(first)) {
		var t turn
		for _, p := range pairs {
			t = append(t, [2]int{min(first[p[0]], first[p[1]]), max(first[p[0]], first[p[1]])})
		}
		if t != nil {
			turns = append(turns, t)
		}
	}
	var within turn
	for i, r := range second {
		if r >= 0 {
			within = append(within, [2]int{first[i], r})
		}
	}
	if within != nil {
		turns = append(turns, within)
	}
	return turns
}

// firsts returns the first rank of every GPU, in order, and the second, -1 where
// there is none.
func firsts(devices []string) (first, second []int) {
	place := make(map[string]int)
	for r, uuid := range devices {
		i, known := place[uuid]
		switch {
		case !known:
			place[uuid] = len(first)
			first, second = append(first, r), append(second, -1)
		case second[i] < 0:
			second[i] = r
		}
	}
	return first, second
}

// partner returns with whom a rank measures in a turn, -1 for nobody.
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
