package tree

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Multi returns one tree per root, tree r with root r, for messages cut into
// as many equal parts. The trees are made jointly: the busiest link or port, in
// uses per GB/s, is as little busy as the search can make it, because equal
// parts move at its pace (as topo.Graph.Loads counts it). It is never busier
// than under the trees of All, which are made one after the other with
// a penalty, and from which the search starts.
//
// A tree uses a link once, whichever way: an AllReduce, which goes up and down, puts that load on each direction.
// Counted per direction of one way only, up or down, a link has about half. So on a DGX-1V, in units of one single
// NVLink, the busiest link has 3/2 uses per direction of one way, and 5/2 both ways. The floor of the latter is 7/3:
// eight trees have 56 links, and the graph is worth 24 single ones; whole uses make it 5/2.
//
// The search takes out one tree at a time and puts in the one that disturbs the others least; when no tree moves any
// more, it takes out several at once and continues from the better result. Up to 10 ranks each tree is the exact best
// answer to the others, above a heuristic one; above 64 ranks the trees change by exchanges of two ranks only, and
// above some hundred fewer and fewer of them do, so that the search ends after seconds (Cut).
func Multi(g *topo.Graph) []topo.Tree {
	start := All(g)
	if g.IsUniform() || g.Ranks > maxMatrix/4 {
		return start // every link of a uniform graph carries two trees: nothing is better
	}
	m := newMulti(g, start)
	bound := m.loads.bound(g.Ranks * (g.Ranks - 1))
	m.settle()
	for m.left > 0 && g.Ranks <= maxFresh && m.loads.cost().busiest > bound*(1+1e-9) {
		m.perturb()
	}
	return m.trees
}

// Cut describes, in words for people, where Multi searches less than it does on small graphs, so that it ends after
// seconds; it is empty where Multi does not.
func Cut(g *topo.Graph) string {
	n := g.Ranks
	if g.IsUniform() || n <= 2*MaxExact || n <= maxMatrix/4 && answers(g) >= 3*n {
		return ""
	}
	return fmt.Sprintf("the search is cut short for %d trees of %d links: better ones may exist", n, len(g.Links))
}

// answers is the number of trees that the search makes in about a second.
func answers(g *topo.Graph) int {
	each := 10*g.Ranks*g.Ranks + 20*len(g.Links) // steps, roughly
	return 1 + 60_000_000/each
}

// maxAnswered is the number of ranks up to which the exact search finds trees.
const maxAnswered = 10

// multi is the search for one tree per root.
type multi struct {
	g      *net // its rates are worth, not GB/s
	loads  *loads
	trees  []topo.Tree
	random *rand.Rand
	left   int // trees that may still be made
}

func newMulti(g *topo.Graph, trees []topo.Tree) *multi {
	m := &multi{g: newNet(g), loads: newLoads(g, trees), trees: trees, random: rand.New(rand.NewPCG(12, uint64(g.Ranks)))}
	m.loads.unit = m.loads.cost().busiest
	switch {
	case g.Ranks <= maxAnswered:
		m.left = 60 * g.Ranks
	case g.Ranks <= 2*MaxExact:
		m.left = 8 * g.Ranks
	default:
		m.left = min(3*g.Ranks, answers(g))
	}
	return m
}

// put puts t, or a tree without ranks, in the place of tree r, which it returns.
func (m *multi) put(r int, t topo.Tree) (old topo.Tree) {
	old = m.trees[r]
	m.loads.add(old, -1)
	m.loads.add(t, 1)
	m.trees[r] = t
	return old
}

// settle replaces one tree after the other while that is better.
func (m *multi) settle() {
	for r, still := 0, 0; still < len(m.trees) && m.left > 0; r = (r + 1) % len(m.trees) {
		still++
		before := m.loads.cost()
		old := m.put(r, topo.Tree{})
		m.put(r, m.answer(r, old, 0))
		if m.loads.cost().less(before) {
			still = 0
		} else {
			m.put(r, old)
		}
	}
}

// perturb takes out three to five trees (or all, where there are fewer), one of them from the busiest link or port,
// puts in others that are made with blurred prices, settles, and goes back if the result is worse.
func (m *multi) perturb() {
	before, old := m.loads.cost(), slices.Clone(m.trees)
	out := m.random.Perm(len(old))
	first := slices.IndexFunc(out, func(r int) bool {
		for v, p := range old[r].Links() {
			if slices.Contains(m.loads.touched[m.loads.index[topo.Pair(v, p)]], before.resource) {
				return true
			}
		}
		return false
	})
	out[0], out[first] = out[first], out[0]
	out = out[:min(len(out), 3+m.random.IntN(3))]
	for _, r := range out {
		m.put(r, topo.Tree{})
	}
	for _, r := range out {
		m.put(r, m.answer(r, old[r], 0.2))
	}
	m.settle()
	if before.less(m.loads.cost()) {
		for r, t := range old {
			m.put(r, t)
		}
	}
}

// answer makes a tree with root r for the uses that the other trees leave: a link is worth more, the less the sum of
// the cost rises when it is used. Prices are blurred by up to the given part. old is the tree that was there. Every
// spanning tree has the same number of links, so a constant added to the worth of all changes nothing.
func (m *multi) answer(r int, old topo.Tree, blur float64) topo.Tree {
	m.left--
	prices := make([]float64, len(m.loads.links))
	for i := range prices {
		prices[i] = m.loads.price(i) * (1 + float64(blur*m.random.Float64()))
	}
	highest := slices.Max(prices)
	for i, l := range m.loads.links {
		m.g.set(l.A, l.B, float64(1.01*highest)-prices[i])
	}
	switch {
	case m.g.n <= maxAnswered:
		return newExact(m.g).tree(r)
	case m.g.n <= maxFresh:
		return newKL(m.g, m.random.Uint64(), 4).tree(r)
	}
	if old.Round == nil {
		return old
	}
	return exchange(m.g, old)
}
