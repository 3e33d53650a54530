package tree

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/treerun/treerun/topo"
)

// MaxExact is the largest number of ranks for which Exact works.
const MaxExact = 16

// Exact returns, for every root, the balanced reduce tree of the largest total rate,
// for at most MaxExact ranks.
//
// In the last round the root receives from a rank u that has gathered a set T
// of ranks, while the root has gathered the rest. So the best tree of k rounds
// over a set of ranks follows from the best ones of k-1 rounds over its two
// parts; the sets are bits of a word, and sizes that cannot occur in a tree of
// all ranks are left out. 8 ranks take about 40 us, 16 about 30 ms.
//
// Where no tree of ceil(log2 n) rounds exists from a root, the best of one or two rounds more comes back, or at last
// the shallowest spanning tree, and its Note reports that.
func Exact(g *topo.Graph) ([]topo.Tree, error) {
	if g.Ranks > MaxExact {
		return nil, fmt.Errorf("tree: exact search over %d ranks, want at most %d", g.Ranks, MaxExact)
	}
	w := newNet(g)
	return w.inTurn(1, newExact(w).tree), nil
}

// moreRounds is the number of rounds above ceil(log2 n) that the search tries.
const moreRounds = 2

var none = math.Inf(-1) // the weight of a tree that does not exist

// exact is the search over the ranks of one net, whose rates do not change.
type exact struct {
	g      *net
	full   uint32 // all ranks
	levels []level
}

// level holds, for trees of k rounds, the best weights. Sets of ranks are
// bits; entry set*n+r belongs to set and rank r.
type level struct {
	known   []bool    // by set: there is a tree of it
	gather  []float64 // the set is gathered in r, which is in it
	deliver []float64 // the set is gathered somewhere and sent on to r, which is not in it
}

func newExact(g *net) *exact { return &exact{g: g, full: uint32(1)<<g.n - 1} }

// tree returns the best tree with the given root.
func (x *exact) tree(root int) topo.Tree {
	t := topo.Tree{Root: root, Parent: make([]int, x.g.n), Round: make([]int, x.g.n)}
	t.Parent[root] = -1
	least := topo.Rounds(x.g.n)
	last := min(least+moreRounds, x.g.n-1)
	for rounds := least; rounds <= last; rounds++ {
		x.prepare(rounds)
		if !x.build(x.full, root, rounds, t) {
			continue
		}
		if rounds > least {
			t.Round = nil
			t.Note = fmt.Sprintf("no balanced reduce tree of %d rounds exists from root %d; this is "+
				"the best of %d rounds", least, root, rounds)
		}
		return t
	}
	t = shallowest(x.g, root)
	t.Note = fmt.Sprintf("no reduce tree of %d rounds exists from root %d; this is the shallowest spanning tree",
		last, root)
	return t
}

// prepare fills the levels below a tree of the given number of rounds, those with the fewest first.
func (x *exact) prepare(rounds int) {
	if len(x.levels) >= rounds {
		return
	}
	x.levels = make([]level, rounds)
	for k := range x.levels {
		least := x.g.n // of the ranks of a set: one of k+1 rounds splits in two of k rounds
		for above := rounds - 1; above >= k; above-- {
			least = max(1, least-1<<above)
		}
		x.fill(k, least)
	}
}

// fill computes level k, for sets of at least the given number of ranks, from level k-1.
func (x *exact) fill(k, least int) {
	n, sets := x.g.n, int(x.full)+1
	x.levels[k] = level{make([]bool, sets), make([]float64, sets*n), make([]float64, sets*n)}
	l := &x.levels[k]
	for set := uint32(1); set < x.full; set++ {
		size := bits.OnesCount32(set)
		if size < least || size > 1<<k {
			continue
		}
		best := l.gather[int(set)*n:][:n]
		for r := range best {
			best[r] = none
		}
		if size == 1 {
			best[bits.TrailingZeros32(set)] = 0
		} else {
			x.split(set, &x.levels[k-1], best)
		}
		if l.known[set] = slices.Max(best) > none; l.known[set] {
			x.send(set, best, l.deliver[int(set)*n:][:n])
		}
	}
}

// split finds the best trees over set for every root in it: over all ways to leave the part keep with the root, both
// parts being gathered as in level l.
func (x *exact) split(set uint32, l *level, best []float64) {
	n := x.g.n
	for keep := (set - 1) & set; keep > 0; keep = (keep - 1) & set {
		give := set &^ keep
		if !l.known[keep] || !l.known[give] {
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
	if l.known[set] { // the last round may be idle
		for r, w := range l.gather[int(set)*n:][:n] {
			best[r] = max(best[r], w)
		}
	}
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
	if l.known[set] {
		best = l.gather[int(set)*n+root]
	}
	others := set &^ (1 << root)
	for give := others; give > 0; give = (give - 1) & others {
		keep := set &^ give
		if !l.known[keep] || !l.known[give] {
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
	u := 0 // the lowest rank through which the given set is delivered at the best weight
	for ; bestGive>>u&1 == 0 || x.g.at(root, u) == 0 ||
		l.gather[int(bestGive)*n+u]+x.g.at(root, u) != l.deliver[int(bestGive)*n+root]; u++ {
	}
	t.Parent[u], t.Round[u] = root, rounds
	x.build(set&^bestGive, root, rounds-1, t)
	x.build(bestGive, u, rounds-1, t)
	return true
}
