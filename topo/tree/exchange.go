package tree

import (
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// maxPasses bounds the passes of an exchange; few graphs need more than five.
const maxPasses = 20

// exchange returns t after pairs of ranks, not the root, have changed places while that
// makes the tree heavier. The rounds of the places stay. Above some hundred
// ranks, where it would take seconds, it does nothing.
func exchange(g *net, t topo.Tree) topo.Tree {
	if g.n == 1 || g.n > maxMatrix/4 {
		return t
	}
	p := newPlacing(g, t)
	p.climb(t.Root)
	return t.Renamed(p.order)
}

// placing puts ranks at the places of some trees.
type placing struct {
	g       *net
	near    [][]int // by place: the places next to it in any tree
	order   []int   // by place: the rank
	missing float64 // the cost of a link that is not there: more than all others together
	least   float64 // the least difference of costs
}

func newPlacing(g *net, trees ...topo.Tree) *placing {
	p := &placing{g: g, near: make([][]int, g.n), order: numbers.Below(g.n)}
	p.missing = 8 * float64(g.n) * g.links()[0].GBytesPerSecond
	p.least = 1e-14 * p.missing
	for _, t := range trees {
		for v, u := range t.Links() {
			p.near[v] = append(p.near[v], u)
			p.near[u] = append(p.near[u], v)
		}
	}
	return p
}

// cost adds up the links of some places: those that are missing, less the rates of the
// others.
func (p *placing) cost(places ...int) (sum float64) {
	for _, v := range places {
		for _, u := range p.near[v] {
			if rate := p.g.at(p.order[v], p.order[u]); rate > 0 {
				sum -= rate
			} else {
				sum += p.missing
			}
		}
	}
	return sum
}

// climb exchanges the ranks of two places, none of them fixed, while that lowers the cost.
func (p *placing) climb(fixed int) {
	swap := func(a, b int) { p.order[a], p.order[b] = p.order[b], p.order[a] }
	for better, pass := true, 0; better && pass < maxPasses; pass++ {
		better = false
		for a := range p.order {
			for b := range a {
				if a == fixed || b == fixed {
					continue
				}
				before := p.cost(a, b)
				if swap(a, b); p.cost(a, b) < before-p.least {
					better = true
				} else {
					swap(a, b)
				}
			}
		}
	}
}
