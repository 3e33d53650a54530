package tree

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// downwards makes a tree from the root to the leaves, as a broadcast goes: in
// every turn each rank that is in the tree takes in one neighbour, those with
// the most neighbours outside first. It ends on every connected graph, often
// with a balanced tree.
func downwards(g *net, root int) topo.Tree {
	d := newGrowth(g, root)
	t := topo.Tree{Root: root, Parent: make([]int, g.n), Round: make([]int, g.n)}
	t.Parent[root] = -1
	turns := 0
	for active := []int{root}; len(active) > 0; {
		turns++
		for _, u := range active {
			if v := d.choose(u); v >= 0 {
				t.Parent[v], t.Round[v] = u, turns
				d.add(v)
				active = append(active, v)
			}
		}
		active = slices.DeleteFunc(active, func(u int) bool { return d.outside[u] == 0 })
		// The ranks with the fewest choices choose first.
		slices.SortStableFunc(active, func(u, v int) int { return d.outside[u] - d.outside[v] })
	}
	least := topo.Rounds(g.n)
	if turns = slices.Max(t.Round); turns > least {
		t.Round = nil
		t.Note = fmt.Sprintf("no balanced reduce tree of %d rounds was found from root %d; this one takes %d rounds", least, root, turns)
		return t
	}
	for v := range t.Round { // the last to be reached is the first to send
		if v != root {
			t.Round[v] = least + 1 - t.Round[v]
		}
	}
	return t
}

// growth is a tree that takes in ranks.
type growth struct {
	g       *net
	inside  []bool
	outside []int // by rank: its neighbours that are not in the tree
}

func newGrowth(g *net, root int) *growth {
	d := &growth{g: g, inside: make([]bool, g.n), outside: make([]int, g.n)}
	for v, list := range g.near {
		d.outside[v] = len(list)
	}
	d.add(root)
	return d
}

func (d *growth) add(v int) {
	d.inside[v] = true
	for _, e := range d.g.near[v] {
		d.outside[e.Rank]--
	}
}

// choose returns the neighbour that u takes in: the one with the most
// neighbours outside, then the fastest, then the lowest; -1 when all are in.
func (d *growth) choose(u int) int {
	best := topo.Neighbour{Rank: -1}
	for _, e := range d.g.near[u] {
		if d.inside[e.Rank] {
			continue
		}
		if best.Rank < 0 || cmp.Or(d.outside[e.Rank]-d.outside[best.Rank], cmp.Compare(e.GBytesPerSecond, best.GBytesPerSecond)) > 0 {
			best = e
		}
	}
	return best.Rank
}
