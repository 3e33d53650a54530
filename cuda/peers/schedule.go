package peers

// turn is what ranks do at the same time: pairs without a GPU in common.
type turn [][2]int

// schedule deals the pairs of GPUs to turns, by the circle method of round-robin
// tournaments. The first rank of each GPU measures for all of its ranks; the first
// two of a GPU measure within it, all GPUs in one turn, the last.
func schedule(devices []string) []turn {
	first, second := firsts(devices)
	n := len(first)
	even := n + n%2 // an odd GPU out sits with nobody
	var turns []turn
	for round := range even - 1 {
		var t turn
		for i := range even / 2 {
			a, b := (round+i)%(even-1), (round+even-1-i)%(even-1)
			if i == 0 {
				b = even - 1
			}
			if a < n && b < n && a != b {
				t = append(t, [2]int{min(first[a], first[b]), max(first[a], first[b])})
			}
		}
		if len(t) > 0 {
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
