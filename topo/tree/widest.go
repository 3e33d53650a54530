package tree

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// ExactWidest returns the balanced reduce tree whose slowest link is as quick
// as possible, and of those the one of the largest total rate, for at most
// MaxExact ranks. A message cut into many chunks moves through a tree at the
// rate of its slowest link, so this is the best balanced tree for large
// messages, as Exact's is the best for many small ones.
//
// It is Exact's search over the links of at least some rate, with the rate
// found by bisection. Where no tree of ceil(log2 n) rounds exists from root,
// the same is done with one and two rounds more, and the Note says so.
func ExactWidest(g *topo.Graph, root int) (topo.Tree, error) {
	if g.Ranks > MaxExact {
		return topo.Tree{}, fmt.Errorf("tree: exact search over %d ranks, want at most %d", g.Ranks, MaxExact)
	}
	if err := check(g, root); err != nil {
		return topo.Tree{}, err
	}
	all := newExact(newNet(g)).tree(root)
	if g.Ranks == 1 {
		return all, nil
	}
	least := topo.Rounds(g.Ranks)
	for rounds := least; rounds <= min(least+moreRounds, g.Ranks-1); rounds++ {
		if t, ok := widest(g, root, rounds); ok {
			if rounds > least {
				t.Round = nil
				t.Note = fmt.Sprintf("no balanced reduce tree of %d rounds exists from root %d; this is the one of the widest slowest link of %d rounds", least, root, rounds)
			}
			return t, nil
		}
	}
	return all, nil // the shallowest, with its note
}

// widest returns the tree of so many rounds with the quickest slowest link.
func widest(g *topo.Graph, root, rounds int) (best topo.Tree, ok bool) {
	rates := make([]float64, 0, len(g.Links))
	for _, l := range g.Links {
		rates = append(rates, l.GBytesPerSecond)
	}
	slices.Sort(rates)
	rates = slices.Compact(rates)
	for low, high := 0, len(rates)-1; low <= high; {
		mid := (low + high) / 2
		t, found := newExact(newNet(atLeast(g, rates[mid]))).within(root, rounds)
		if !found {
			high = mid - 1
			continue
		}
		best, ok = t, true
		low = mid + 1
	}
	return best, ok
}

// atLeast is g with only the links of at least some rate; it may fall apart.
func atLeast(g *topo.Graph, rate float64) *topo.Graph {
	h := &topo.Graph{Ranks: g.Ranks}
	for _, l := range g.Links {
		if l.GBytesPerSecond >= rate {
			h.Links = append(h.Links, l)
		}
	}
	return h
}
