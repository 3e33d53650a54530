package pack

// sides returns the cuts that are likely to be the least: the ports, and the single ranks.
func (w *network) sides() (list [][][]int) {
	for v := range w.n {
		list = append(list, halves(w.n, []int{v}))
	}
	for _, p := range w.g.Ports {
		list = append(list, halves(w.n, p.Ranks))
	}
	return list
}

// halves returns the set and the ranks outside as a partition.
func halves(n int, set []int) [][]int {
	inside := make([]bool, n)
	for _, v := range set {
		inside[v] = true
	}
	parts := make([][]int, 2)
	for v := range n {
		i := 0
		if inside[v] != inside[0] {
			i = 1
		}
		parts[i] = append(parts[i], v)
	}
	return parts
}
