package tree

import (
	"math/rand/v2"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Multi returns one tree per root, tree r with root r, for messages cut into
// as many equal parts. The trees are made jointly: the busiest link or port, in
// uses per GB/s, is as little busy as the search can make it, because equal
// parts move at its pace (topo.Graph.Busiest measures it). It is never busier
// than under the trees of All or KLAll, which are made one after the other with
// a penalty, and from which the search starts.
//
// A tree uses a link once, whichever way: that is what an AllReduce, which goes
// up and down, puts on each direction. Counted per direction of one way only,
// up or down, a link has about half. So on a DGX-1V, in units of one single
// NVLink, the busiest link has 3/2 uses per direction of one way, and 5/2 both
// ways. The floor of the latter is 7/3: eight trees have 56 links, and the graph
// is worth 24 single ones; whole uses make it 5/2.
//
// The search takes out one tree at a time and puts in the one that disturbs
// the others least; when no tree moves any more, it takes out several at once
// and goes on from the better result. Up to 10 ranks each tree is the exact
// best answer to the others, above a heuristic one; above 64 ranks the trees
// change by exchanges of two ranks only, and above some hundred fewer and fewer
// of them do, so that the search ends after seconds (Cut).
func Multi(g *topo.Graph) ([]topo.Tree, error) {
	start, err := All(g)
	if err != nil || g.IsUniform() || g.Ranks > maxMatrix/4 {
		return start, err // every link of a uniform graph carries two trees: nothing is better
	}
	other, err := KLAll(g, LinkUsagePenalty, KLOptions{})
	if err != nil {
		return nil, err
	}
	if g.Busiest(other) < g.Busiest(start) {
		start = other
	}
	m := newMulti(g, start)
	least := m.crowd.least(g.Ranks * (g.Ranks - 1))
	m.settle()
	for m.left > 0 && m.g.n <= maxFresh && m.crowd.cost().busiest > least*(1+1e-9) {
		m.shake()
	}
	return m.trees, nil
}

// multiWork bounds the steps of the search above MaxExact ranks, where it is
// cut short from some hundred ranks on: about a second.
const multiWork = 60_000_000

// answers is the number of trees that multiWork is enough for.
func answers(g *topo.Graph) int {
	each := 10*g.Ranks*g.Ranks + 20*len(g.Links) // steps, roughly
	return 1 + multiWork/each
}

// maxAnswered is the number of ranks up to which the exact search finds trees.
const maxAnswered = 10

// multi is the search for one tree per root.
type multi struct {
	g      *net // its rates are worth, not GB/s
	crowd  *crowd
	exact  *exact // nil above maxAnswered ranks
	trees  []topo.Tree
	random *rand.Rand
	left   int // trees that may still be made
}

func newMulti(g *topo.Graph, trees []topo.Tree) *multi {
	m := &multi{g: newNet(g), crowd: newCrowd(g), trees: trees, random: rand.New(rand.NewPCG(12, uint64(g.Ranks)))}
	m.crowd.unit = g.Busiest(trees)
	for _, t := range trees {
		m.crowd.add(t, 1)
	}
	switch {
	case g.Ranks <= maxAnswered:
		m.exact = newExact(m.g)
		m.left = 60 * g.Ranks
	case g.Ranks <= 2*MaxExact:
		m.left = 8 * g.Ranks
	default:
		m.left = min(3*g.Ranks, answers(g))
	}
	return m
}

// settle replaces one tree after the other while that is better.
func (m *multi) settle() {
	for still := 0; still < len(m.trees) && m.left > 0; {
		for r := range m.trees {
			still++
			if m.replace(r) {
				still = 0
			}
			if still >= len(m.trees) || m.left <= 0 {
				break
			}
		}
	}
}

// replace puts a better tree in the place of tree r, if it finds one.
func (m *multi) replace(r int) bool {
	before, old := m.crowd.cost(), m.trees[r]
	m.crowd.add(old, -1)
	m.trees[r] = m.answer(r, old, 0)
	m.crowd.add(m.trees[r], 1)
	if m.crowd.cost().less(before) {
		return true
	}
	m.crowd.add(m.trees[r], -1)
	m.crowd.add(old, 1)
	m.trees[r] = old
	return false
}

// shake takes out some trees, one of them from the busiest link or port, puts
// in others that are made with blurred prices, settles, and goes back if the
// result is worse.
func (m *multi) shake() {
	before, old := m.crowd.cost(), slices.Clone(m.trees)
	out := m.someTrees()
	for _, r := range out {
		m.crowd.add(m.trees[r], -1)
	}
	for _, r := range out {
		m.trees[r] = m.answer(r, m.trees[r], 0.2)
		m.crowd.add(m.trees[r], 1)
	}
	m.settle()
	if before.less(m.crowd.cost()) {
		for r := range old {
			m.crowd.add(m.trees[r], -1)
			m.crowd.add(old[r], 1)
		}
		m.trees = old
	}
}

// someTrees chooses three to five trees (fewer where there are not so many), the
// first from the busiest resource.
func (m *multi) someTrees() []int {
	hot := m.crowd.hottest()
	out := m.random.Perm(len(m.trees))
	first := slices.IndexFunc(out, func(r int) bool {
		for v, p := range m.trees[r].Parent {
			if p >= 0 && slices.Contains(m.crowd.touched[m.crowd.link(v, p)], hot) {
				return true
			}
		}
		return false
	})
	out[0], out[first] = out[first], out[0]
	return out[:min(len(out), 3+m.random.IntN(3))]
}

// answer makes a tree with root r for the uses that the other trees leave: a
// link is worth more, the less the pressure rises when it is used. Prices are
// blurred by up to the given part. old is the tree that was there.
func (m *multi) answer(r int, old topo.Tree, blur float64) topo.Tree {
	m.left--
	if m.g.n > maxFresh {
		t := old
		t.Parent, t.Round = slices.Clone(old.Parent), slices.Clone(old.Round)
		m.revalue(blur)
		if t.Round != nil {
			exchange(m.g, t)
		}
		return t
	}
	m.revalue(blur)
	if m.exact != nil {
		m.exact.atMost = 0 // the worths have changed
		return m.exact.tree(r)
	}
	return newKL(m.g, m.g.n, KLOptions{Seed: m.random.Uint64(), Attempts: 4}).tree(r)
}

// revalue sets the worth of all links. Every spanning tree has the same number
// of links, so what is added to all of them changes nothing.
func (m *multi) revalue(blur float64) {
	prices := make([]float64, len(m.crowd.links))
	most := 0.0
	for i := range prices {
		prices[i] = m.crowd.price(i) * (1 + blur*m.random.Float64())
		most = max(most, prices[i])
	}
	for i, l := range m.crowd.links {
		m.g.set(l.a, l.b, 1.01*most-prices[i])
	}
}
