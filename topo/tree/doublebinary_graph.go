package tree

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/treerun/treerun/topo"
)

// maxRenamed is the number of ranks up to which DoubleBinaryOn looks for a
// better order of the ranks than the one they have.
const maxRenamed = 128

// DoubleBinaryOn returns the two trees of DoubleBinary over the ranks of g, in
// an order of ranks that makes use of links which g has, quick ones first.
//
// The trees are made for networks in which every rank reaches every other.
// Where g lacks a link they need, the quickest links that keep the tree
// connected come in its place, and the tree's Note says how many; it may be
// deeper then.
func DoubleBinaryOn(g *topo.Graph, v Variant) ([]topo.Tree, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	w := newNet(g)
	pure := DoubleBinary(g.Ranks, v)
	order := renamed(w, g, pure)
	trees := make([]topo.Tree, len(pure))
	for i, t := range pure {
		trees[i] = mend(w, rename(t, order))
	}
	return trees, nil
}

// rename returns t with the rank at place v called order[v].
func rename(t topo.Tree, order []int) topo.Tree {
	out := topo.Tree{Root: order[t.Root], Parent: make([]int, len(order))}
	for v, p := range t.Parent {
		out.Parent[order[v]] = -1
		if p >= 0 {
			out.Parent[order[v]] = order[p]
		}
	}
	return out
}

// placing puts ranks at the places of both trees.
type placing struct {
	g     *net
	near  [][]int // by place: the places next to it in either tree
	order []int   // by place: the rank
}

// renamed looks for an order of the ranks in which both trees find their links,
// first of all, and quick ones. It exchanges pairs while that helps, from the
// order of the ranks and, where links are missing, from some random ones.
func renamed(w *net, g *topo.Graph, trees [2]topo.Tree) []int {
	p := placing{g: w, near: make([][]int, w.n), order: make([]int, w.n)}
	for i := range p.order {
		p.order[i] = i
	}
	if w.n > maxRenamed || g.IsUniform() {
		return p.order
	}
	for _, t := range trees {
		for v, u := range t.Parent {
			if u >= 0 {
				p.near[v] = append(p.near[v], u)
				p.near[u] = append(p.near[u], v)
			}
		}
	}
	p.climb()
	best, cost := slices.Clone(p.order), p.cost()
	random := rand.New(rand.NewPCG(2, uint64(w.n)))
	for range 40 {
		if cost.missing == 0 || w.n > 32 {
			break
		}
		random.Shuffle(w.n, func(i, j int) { p.order[i], p.order[j] = p.order[j], p.order[i] })
		p.climb()
		if c := p.cost(); c.less(cost) {
			best, cost = slices.Clone(p.order), c
		}
	}
	return best
}

// placeCost is what an order costs: links that are not there, then slow ones.
type placeCost struct {
	missing int
	rate    float64 // the sum, more is better
}

func (c placeCost) less(d placeCost) bool {
	return cmp.Or(c.missing-d.missing, cmp.Compare(d.rate, c.rate)) < 0
}

func (c *placeCost) add(rate float64) {
	if rate == 0 {
		c.missing++
	}
	c.rate += rate
}

func (p *placing) cost() (c placeCost) {
	for v := range p.near {
		p.count(&c, v, -1)
	}
	return c
}

// count adds the links of place v, without the ones to the place but.
func (p *placing) count(c *placeCost, v, but int) {
	for _, u := range p.near[v] {
		if u != but {
			c.add(p.g.at(p.order[v], p.order[u]))
		}
	}
}

// climb exchanges ranks of two places while that lowers the cost.
func (p *placing) climb() {
	local := func(a, b int) (c placeCost) {
		p.count(&c, a, b)
		p.count(&c, b, a)
		return c
	}
	for better, pass := true, 0; better && pass < maxPasses; pass++ {
		better = false
		for a := range p.order {
			for b := range a {
				before := local(a, b)
				p.order[a], p.order[b] = p.order[b], p.order[a]
				if local(a, b).less(before) {
					better = true
					continue
				}
				p.order[a], p.order[b] = p.order[b], p.order[a]
			}
		}
	}
}

// mend replaces the links of t that g does not have by the quickest ones that
// join the pieces, and turns the pieces so that they hang from the root.
func mend(g *net, t topo.Tree) topo.Tree {
	joined := newForest(g.n)
	near := make([][]int, g.n)
	missing := 0
	for v, p := range t.Parent {
		switch {
		case p < 0:
		case g.at(v, p) == 0:
			missing++
		case joined.join(v, p):
			near[v], near[p] = append(near[v], p), append(near[p], v)
		}
	}
	if missing == 0 {
		return t
	}
	for _, l := range g.byRate() {
		if joined.join(l.a, l.b) {
			near[l.a], near[l.b] = append(near[l.a], l.b), append(near[l.b], l.a)
		}
	}
	out := hang(near, t.Root)
	out.Note = fmt.Sprintf("the graph lacks %d of the tree's %d links; the quickest others that keep it connected stand in", missing, g.n-1)
	return out
}

// hang turns an undirected tree into one with the given root.
func hang(near [][]int, root int) topo.Tree {
	t := topo.Tree{Root: root, Parent: make([]int, len(near))}
	t.Parent[root] = -1
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		u := queue[0]
		for _, v := range near[u] {
			if v != t.Parent[u] {
				t.Parent[v] = u
				queue = append(queue, v)
			}
		}
	}
	return t
}

// byRate returns the links, quickest first, equals by rank.
func (g *net) byRate() []pair {
	var list []pair
	for a, near := range g.near {
		for _, e := range near {
			if a < e.Rank {
				list = append(list, pair{a: a, b: e.Rank, rate: e.GBytesPerSecond})
			}
		}
	}
	slices.SortStableFunc(list, func(x, y pair) int { return cmp.Compare(y.rate, x.rate) })
	return list
}

// forest is a union-find of ranks.
type forest []int

func newForest(n int) forest {
	f := make(forest, n)
	for i := range f {
		f[i] = i
	}
	return f
}

func (f forest) find(v int) int {
	for f[v] != v {
		f[v] = f[f[v]]
		v = f[v]
	}
	return v
}

// join reports whether a and b were apart, and joins them.
func (f forest) join(a, b int) bool {
	a, b = f.find(a), f.find(b)
	f[a] = b
	return a != b
}
