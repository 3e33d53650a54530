package tree

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/treerun/treerun/topo"
)

// Exact returns the balanced reduce tree of the largest total rate with the
// given root, for at most MaxExact ranks.
//
// In the last round the root receives from a rank u that has gathered a set T
// of ranks, while the root has gathered the rest. So the best tree of k rounds
// over a set of ranks follows from the best ones of k-1 rounds over its two
// parts; the sets are bits of a word, and sizes that cannot occur in a tree of
// all ranks are left out. 8 ranks take about 40 us, 16 about 30 ms.
//
// Where no tree of ceil(log2 n) rounds exists from root, the best of one or
// two rounds more comes back, or at last the shallowest spanning tree, and its
// Note says so.
func Exact(g *topo.Graph, root int) (topo.Tree, error) {
	if g.Ranks > MaxExact {
		return topo.Tree{}, fmt.Errorf("tree: exact search over %d ranks, want at most %d", g.Ranks, MaxExact)
	}
	if err := check(g, root); err != nil {
		return topo.Tree{}, err
	}
	return newExact(newNet(g)).tree(root), nil
}

// moreRounds is how many rounds more than ceil(log2 n) the search tries.
const moreRounds = 2

var none = math.Inf(-1) // the weight of a tree that does not exist

// exact is the search over the ranks of one net.
type exact struct {
	g      *net
	full   uint32 // all ranks
	joined []bool // by set: its ranks are connected; no tree spans another set
	levels []level
	atMost int // the rounds for which levels were made
}

// level holds, for trees of k rounds, the best weights. Sets of ranks are
// bits; entry set*n+r belongs to set and rank r.
type level struct {
	atLeast, atMost int       // sizes of the sets that were looked at
	gather          []float64 // the set is gathered in r, which is in it
	deliver         []float64 // the set is gathered somewhere and sent on to r, which is not in it
}

func newExact(g *net) *exact {
	x := &exact{g: g, full: uint32(1)<<g.n - 1}
	near := make([]uint32, g.n)
	for v, list := range g.near {
		for _, e := range list {
			near[v] |= 1 << e.Rank
		}
	}
	x.joined = make([]bool, x.full+1)
	for set := uint32(1); set <= x.full; set++ {
		x.joined[set] = connected(set, near)
	}
	return x
}

// connected reports whether the ranks of set, not empty, are one component of
// the graph in which near holds every rank's neighbours.
func connected(set uint32, near []uint32) bool {
	reached, fresh := uint32(0), set&-set
	for fresh != 0 {
		reached |= fresh
		next := uint32(0)
		for ; fresh > 0; fresh &= fresh - 1 {
			next |= near[bits.TrailingZeros32(fresh)]
		}
		fresh = next & set &^ reached
	}
	return reached == set
}

// tree returns the best tree with the given root.
func (x *exact) tree(root int) topo.Tree {
	n := x.g.n
	if n == 1 {
		return topo.Tree{Parent: []int{-1}, Round: []int{0}}
	}
	least := topo.Rounds(n)
	for rounds := least; rounds <= min(least+moreRounds, n-1); rounds++ {
		t, ok := x.within(root, rounds)
		if !ok {
			continue
		}
		if rounds > least {
			t.Round = nil
			t.Note = fmt.Sprintf("no balanced reduce tree of %d rounds exists from root %d; this is the best of %d rounds", least, root, rounds)
		}
		return t
	}
	t, _ := shallowest(x.g, root)
	t.Note = fmt.Sprintf("no reduce tree of %d rounds exists from root %d; this is the shallowest spanning tree", min(least+moreRounds, n-1), root)
	return t
}

// within returns the best tree of so many rounds, if there is one; n > 1.
func (x *exact) within(root, rounds int) (t topo.Tree, ok bool) {
	x.prepare(rounds)
	t = topo.Tree{Root: root, Parent: make([]int, x.g.n), Round: make([]int, x.g.n)}
	t.Parent[root] = -1
	return t, x.build(x.full, root, rounds, t)
}

// prepare fills the levels below a tree of so many rounds.
func (x *exact) prepare(rounds int) {
	if x.atMost >= rounds {
		return
	}
	x.atMost = rounds
	if len(x.levels) != rounds {
		x.levels = make([]level, rounds)
	}
	least := x.g.n
	for k := rounds - 1; k >= 0; k-- {
		// A set of k+1 rounds splits in two of k rounds.
		least = max(1, least-1<<k)
		x.levels[k].atLeast, x.levels[k].atMost = least, min(1<<k, x.g.n-1)
	}
	for k := range x.levels {
		x.fill(k)
	}
}

// fill computes level k from level k-1.
func (x *exact) fill(k int) {
	n, l := x.g.n, &x.levels[k]
	if l.gather == nil { // otherwise the rates have changed
		l.gather = make([]float64, (int(x.full)+1)*n)
		l.deliver = make([]float64, (int(x.full)+1)*n)
	}
	for set := uint32(1); set < x.full; set++ {
		size := bits.OnesCount32(set)
		if size < l.atLeast || size > l.atMost {
			continue
		}
		best := l.gather[int(set)*n:][:n]
		for r := range best {
			best[r] = none
		}
		switch {
		case size == 1:
			best[bits.TrailingZeros32(set)] = 0
		case k > 0 && x.joined[set]:
			x.split(set, k, best)
		}
		x.send(set, best, l.deliver[int(set)*n:][:n])
	}
}

// split finds the best trees of k rounds over set for every root in it: over
// all ways to leave the part keep with the root.
func (x *exact) split(set uint32, k int, best []float64) {
	n, l := x.g.n, &x.levels[k-1]
	for keep := (set - 1) & set; keep > 0; keep = (keep - 1) & set {
		give := set &^ keep
		if !l.has(keep) || !l.has(give) || !x.joined[keep] || !x.joined[give] {
			continue
		}
		gather, deliver := l.gather[int(keep)*n:], l.deliver[int(give)*n:]
		for rest := keep; rest > 0; rest &= rest - 1 {
			r := bits.TrailingZeros32(rest)
			if w := gather[r] + deliver[r]; w > best[r] {
				best[r] = w
			}
		}
	}
	if l.has(set) { // the last round may be idle
		for r, w := range l.gather[int(set)*n:][:n] {
			best[r] = max(best[r], w)
		}
	}
}

func (l *level) has(set uint32) bool {
	size := bits.OnesCount32(set)
	return size >= l.atLeast && size <= l.atMost
}

// send extends the trees over set, with the weights gather by root, by a link
// to every rank outside.
func (x *exact) send(set uint32, gather, deliver []float64) {
	for r := range deliver {
		deliver[r] = none
		if set>>r&1 == 1 {
			continue
		}
		for rest := set; rest > 0; rest &= rest - 1 {
			u := bits.TrailingZeros32(rest)
			if w := x.g.at(r, u); w > 0 {
				deliver[r] = max(deliver[r], gather[u]+w)
			}
		}
	}
}

// build writes the best tree over set with the given root and rounds into t,
// and reports whether there is one. Of equal trees it takes the one whose last
// sender has the smallest set, in the order of sets as numbers, and the lowest
// rank.
func (x *exact) build(set uint32, root, rounds int, t topo.Tree) bool {
	if set == 1<<root {
		return true
	}
	n, l := x.g.n, &x.levels[rounds-1]
	best, bestGive := none, uint32(0)
	if l.has(set) {
		best = l.gather[int(set)*n+root]
	}
	others := set &^ (1 << root)
	for give := others; give > 0; give = (give - 1) & others {
		keep := set &^ give
		if !l.has(keep) || !l.has(give) {
			continue
		}
		w := l.gather[int(keep)*n+root] + l.deliver[int(give)*n+root]
		if w > best || w == best && w != none {
			best, bestGive = w, give
		}
	}
	switch {
	case best == none:
		return false
	case bestGive == 0: // idle
		return x.build(set, root, rounds-1, t)
	}
	u := x.sender(bestGive, root, l)
	t.Parent[u], t.Round[u] = root, rounds
	x.build(set&^bestGive, root, rounds-1, t)
	x.build(bestGive, u, rounds-1, t)
	return true
}

// sender returns the rank of set, lowest first, through which it is delivered
// to root at the best weight.
func (x *exact) sender(set uint32, root int, l *level) int {
	n := x.g.n
	for rest := set; rest > 0; rest &= rest - 1 {
		u := bits.TrailingZeros32(rest)
		if w := x.g.at(root, u); w > 0 && l.gather[int(set)*n+u]+w == l.deliver[int(set)*n+root] {
			return u
		}
	}
	panic("tree: a set is delivered by none of its ranks")
}
