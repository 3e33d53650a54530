package tree

import "github.com/treerun/treerun/topo"

// maxPasses bounds the passes of exchange; few graphs need more than five.
const maxPasses = 20

// exchange returns t after pairs of ranks, not the root, have changed places while that
// makes the tree heavier. The rounds of the places stay. Above some hundred
// ranks, where it would take seconds, it does nothing.
func exchange(g *net, t topo.Tree) topo.Tree {
	if g.n > maxMatrix/4 {
		return t
	}
	children := t.Children()
	for better, pass := true, 0; better && pass < maxPasses; pass++ {
		better = false
		for a := range g.n {
			for b := a + 1; b < g.n; b++ {
				if a == t.Root || b == t.Root || gain(g, t, children, a, b) <= 0 {
					continue
				}
				order := sequence(g.n)
				order[a], order[b] = b, a
				t = t.Renamed(order)
				children = t.Children()
				better = true
			}
		}
	}
	return t
}

// sequence returns the numbers below n.
func sequence(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// gain is how much heavier t becomes when a and b change places; none when
// that needs a link that is not there.
func gain(g *net, t topo.Tree, children [][]int, a, b int) float64 {
	sum := 0.0
	move := func(x, from, to int) { // the other end of a link to x
		switch w := g.at(to, x); {
		case x == to: // the link between the two stays
		case w == 0:
			sum = none
		default:
			sum += w - g.at(from, x)
		}
	}
	move(t.Parent[a], a, b)
	move(t.Parent[b], b, a)
	for _, c := range children[a] {
		move(c, a, b)
	}
	for _, c := range children[b] {
		move(c, b, a)
	}
	return sum
}
