package topo

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

// Rounds is the number of rounds of a balanced reduce tree on n ranks:
// ceil(log2 n), 0 for one rank.
func Rounds(n int) int {
	if n <= 1 {
		return 0
	}
	return bits.Len(uint(n - 1))
}

// Star returns the tree of n ranks in which all others are children of root.
func Star(n, root int) Tree {
	t := Tree{Root: root, Parent: slices.Repeat([]int{root}, n)}
	t.Parent[root] = -1
	return t
}

// Reroot returns t with another root: the same links, turned on the way from
// there to the old root. Rounds and the note are those of t and are dropped;
// t itself comes back if it has that root. t must be valid.
func (t Tree) Reroot(root int) Tree {
	if root == t.Root {
		return t
	}
	out := Tree{Root: root, Parent: slices.Clone(t.Parent)}
	for child, v := -1, root; v >= 0; {
		out.Parent[v], child, v = child, v, t.Parent[v]
	}
	return out
}

// Validate reports the first thing that makes t no spanning tree of n ranks,
// or its rounds not those of a balanced reduce tree.
func (t Tree) Validate(n int) error {
	if n < 1 || len(t.Parent) != n {
		return fmt.Errorf("tree has parents for %d ranks, want %d", len(t.Parent), n)
	}
	if t.Root < 0 || t.Root >= n {
		return fmt.Errorf("root %d of the tree is not a rank of 0..%d", t.Root, n-1)
	}
	if t.Parent[t.Root] != -1 {
		return fmt.Errorf("root %d of the tree has parent %d, want -1", t.Root, t.Parent[t.Root])
	}
	for v, p := range t.Parent {
		if v != t.Root && (p < 0 || p >= n || p == v) {
			return fmt.Errorf("rank %d of the tree has parent %d, want another rank of 0..%d", v, p, n-1)
		}
	}
	reaches := make([]bool, n) // the root, over parents
	reaches[t.Root] = true
	for v := range n {
		at := v
		for steps := 0; !reaches[at]; steps++ {
			if steps == n {
				return fmt.Errorf("rank %d of the tree never reaches root %d: its ancestors form a cycle", v, t.Root)
			}
			at = t.Parent[at]
		}
		for at = v; !reaches[at]; at = t.Parent[at] {
			reaches[at] = true
		}
	}
	if t.Round == nil {
		return nil
	}
	return t.validateRounds()
}

// validateRounds checks the rounds of a spanning tree.
func (t Tree) validateRounds() error {
	n := len(t.Parent)
	if len(t.Round) != n {
		return fmt.Errorf("tree has rounds for %d ranks, want %d", len(t.Round), n)
	}
	last := Rounds(n)
	busy := make([]uint64, n) // bit k: the rank has a transfer in round k
	for v, k := range t.Round {
		if v == t.Root {
			if k != 0 {
				return fmt.Errorf("root %d of the tree sends in round %d, want 0", v, k)
			}
			continue
		}
		p := t.Parent[v]
		switch {
		case k < 1 || k > last:
			return fmt.Errorf("rank %d sends in round %d, want 1..%d", v, k, last)
		case p != t.Root && t.Round[p] <= k:
			return fmt.Errorf("rank %d sends in round %d, but its parent %d has sent in round %d already", v, k, p,
				t.Round[p])
		case busy[p]&(1<<k) != 0:
			return fmt.Errorf("rank %d has two transfers in round %d", p, k)
		}
		busy[p] |= 1 << k
	}
	return nil
}

// Children returns, for every rank, its children in the order in which it
// reduces them: by round, or where the tree has no rounds the child with the
// shallowest subtree first, equals by rank. Downwards the order is reversed.
// t must be valid.
func (t Tree) Children() [][]int {
	c := t.below()
	key := t.Round
	if key == nil {
		key = t.heights(c)
	}
	for _, list := range c {
		slices.SortStableFunc(list, func(a, b int) int { return key[a] - key[b] })
	}
	return c
}

// Links returns the ranks that have a parent, rising, each with it.
func (t Tree) Links() iter.Seq2[int, int] {
	return func(yield func(rank, parent int) bool) {
		for v, p := range t.Parent {
			if p >= 0 && !yield(v, p) {
				return
			}
		}
	}
}

// below returns the children of every rank by rank.
func (t Tree) below() [][]int {
	c := make([][]int, len(t.Parent))
	for v, p := range t.Links() {
		c[p] = append(c[p], v)
	}
	return c
}

// heights returns the height of every rank's subtree, in links.
func (t Tree) heights(children [][]int) []int {
	h := make([]int, len(t.Parent))
	var find func(v int) int
	find = func(v int) int {
		for _, c := range children[v] {
			h[v] = max(h[v], find(c)+1)
		}
		return h[v]
	}
	find(t.Root)
	return h
}

// Depth is the number of links between the root and the farthest rank. t must
// be valid.
func (t Tree) Depth() int {
	return t.heights(t.below())[t.Root]
}

// Renamed returns t with every rank r called order[r].
func (t Tree) Renamed(order []int) Tree {
	n := len(t.Parent)
	s := Tree{Root: order[t.Root], Parent: make([]int, n), Note: t.Note}
	if t.Round != nil {
		s.Round = make([]int, n)
	}
	for v, p := range t.Parent {
		s.Parent[order[v]] = -1
		if p >= 0 {
			s.Parent[order[v]] = order[p]
		}
		if t.Round != nil {
			s.Round[order[v]] = t.Round[v]
		}
	}
	return s
}
