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
	t := topo.Tree{Root: root, Parent: slices.Repeat([]int{-1}, g.n), Round: make([]int, g.n)}
	outside := make([]int, g.n) // by rank: its neighbours that are not in the tree
	for v, list := range g.near {
		outside[v] = len(list)
	}
	var active []int
	add := func(v int) {
		for _, u := range g.near[v] {
			outside[u]--
		}
		active = append(active, v)
	}
	add(root)
	turns := 0
	for len(active) > 0 {
		turns++
		for _, u := range active {
			// The one with the most neighbours outside, then the fastest, then the lowest.
			best := -1
			for _, v := range g.near[u] {
				if v != root && t.Parent[v] < 0 &&
					(best < 0 || cmp.Or(outside[v]-outside[best], cmp.Compare(g.at(u, v), g.at(u, best))) > 0) {
					best = v
				}
			}
			if best >= 0 {
				t.Parent[best], t.Round[best] = u, turns
				add(best)
			}
		}
		active = slices.DeleteFunc(active, func(u int) bool { return outside[u] == 0 })
		// The ranks with the fewest choices choose first.
		slices.SortStableFunc(active, func(u, v int) int { return outside[u] - outside[v] })
	}
	least := topo.Rounds(g.n)
	if turns = slices.Max(t.Round); turns > least {
		t.Round = nil
		t.Note = fmt.Sprintf("no balanced reduce tree of %d rounds was found from root %d; this one takes %d rounds",
			least, root, turns)
		return t
	}
	for v := range t.Round { // the last to be reached is the first to send
		if v != root {
			t.Round[v] = least + 1 - t.Round[v]
		}
	}
	return t
}
