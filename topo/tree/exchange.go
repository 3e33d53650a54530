package tree

import "github.com/treerun/treerun/topo"

// maxPasses bounds the passes of exchange; few graphs need more than five.
const maxPasses = 20

// exchange lets pairs of ranks of t, not the root, change places while that
// makes the tree heavier. The rounds of the places stay. Above some hundred
// ranks, where it would take seconds, it does nothing.
func exchange(g *net, t topo.Tree) {
	if g.n > maxMatrix/4 {
		return
	}
	children := t.Children()
	for range maxPasses {
		better := false
		for a := range g.n {
			for b := a + 1; b < g.n; b++ {
				if a == t.Root || b == t.Root || gain(g, t, children, a, b) <= 0 {
					continue
				}
				swap(t, a, b)
				children = t.Children()
				better = true
			}
		}
		if !better {
			return
		}
	}
}

// gain is how much heavier t becomes when a and b change places; none when
// that needs a link that is not there.
func gain(g *net, t topo.Tree, children [][]int, a, b int) float64 {
	sum := step(g, t.Parent[a], a, b) + step(g, t.Parent[b], b, a)
	for _, c := range children[a] {
		sum += step(g, c, a, b)
	}
	for _, c := range children[b] {
		sum += step(g, c, b, a)
	}
	return sum
}

// step is the gain of a link to x whose other end moves.
func step(g *net, x, from, to int) float64 {
	if x == to {
		return 0 // the link between the two stays
	}
	w := g.at(to, x)
	if w == 0 {
		return none
	}
	return w - g.at(from, x)
}

// swap lets a and b, neither of them the root, change places in t.
func swap(t topo.Tree, a, b int) {
	for v, p := range t.Parent {
		switch p {
		case a:
			t.Parent[v] = b
		case b:
			t.Parent[v] = a
		}
	}
	t.Parent[a], t.Parent[b] = t.Parent[b], t.Parent[a]
	t.Round[a], t.Round[b] = t.Round[b], t.Round[a]
}
