package pack

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// chooser picks at most the given number of trees, and their rates, with a large sum: step 3 of the patent, which
// leaves the method open. With a limit on the number of trees the problem is NP-hard; this is forward selection, in
// which the linear program sets all rates again for every tree that is tried, and then swaps of single trees.
//
// The trees come from a pool, which grows: for every selection also the tree that gains the most under the prices of
// its program, and the widest tree in the rates that it leaves over.
type chooser struct {
	w      *network
	pool   *pool
	delay  []float64 // by link
	height float64   // no tree may be higher
	random *rand.Rand
	caps   []float64 // by row: the capacity, or one with noise
}

// selection is some trees of the pool with their program, solved.
type selection struct {
	m     *master
	trees []int // by column of m; forgotten ones are -1
	value float64
}

const (
	maxTried = 12 // trees that are tried for one place, the most promising first
	maxAgain = 40 // searches with noise; fewer where they take long
	noise    = 0.05
	enough   = 0.99 // share of the bound at which the search ends
)

// key names the set of trees.
func (s *selection) key() []int {
	list := slices.DeleteFunc(slices.Clone(s.trees), func(k int) bool { return k < 0 })
	slices.Sort(list)
	return list
}

// with returns the selection with some trees more, solved; trees that get no
// rate are dropped.
func (c *chooser) with(s *selection, trees ...int) *selection {
	s = &selection{m: s.m.clone(), trees: slices.Concat(s.trees, trees)}
	for _, k := range trees {
		s.m.add(c.pool.cols[k])
	}
	s.m.solve(100 + 10*len(s.trees))
	s.value = s.m.value()
	for i := range s.trees {
		if !s.m.used[i] {
			s.m.cols[i] = nil
			s.trees[i] = -1
		}
	}
	return s
}

// of returns the selection of the given trees.
func (c *chooser) of(trees []int) *selection {
	return c.with(&selection{m: newMaster(c.caps, math.Inf(1))}, trees...)
}

// candidates returns the trees that are worth a try in s: those that gain
// something, the ones with the largest gain and the most room first. It adds
// trees to the pool.
func (c *chooser) candidates(s *selection, most int) []int {
	price := make([]float64, len(c.w.Caps))
	s.m.prices(price)
	left := slices.Clone(c.caps)
	for r, l := range loads(s.m.solution(), s.m.cols, len(left)) {
		left[r] = max(0, left[r]-l)
	}
	c.grow(price, left)
	type candidate struct {
		tree  int
		score float64
	}
	var list []candidate
	for k, col := range c.pool.cols {
		g := col.gain(price)
		if g <= smallPrice {
			continue
		}
		// Room that is left counts most: nothing needs to give way.
		score := g * (col.width(left) + float64(0.1*col.width(c.w.Caps)))
		list = append(list, candidate{k, score})
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	var trees []int
	for _, e := range list[:min(len(list), most)] {
		trees = append(trees, e.tree)
	}
	return trees
}

// grow adds to the pool two cheapest trees under the prices, and the widest tree in the rates left in the rows; with
// ports one that is wide.
func (c *chooser) grow(price, left []float64) {
	cost := make([]float64, len(c.w.Takes))
	c.w.costs(price, cost)
	for range 2 {
		for l := range len(cost) / 2 { // decides between equals
			f := float64(1e-6 * c.random.Float64())
			cost[2*l] += f
			cost[2*l+1] += f
		}
		c.admit(c.w.cheapest(cost))
	}
	if len(c.w.g.Ports) > 0 {
		g := newGreedy(c.w, c.delay, c.height, 0, math.Inf(1), 0)
		g.left = left
		if t, ok := g.grow(max(0, c.w.root)); ok {
			c.pool.add(t)
		}
		return
	}
	for a, takes := range c.w.Takes {
		cost[a] = -left[takes[0].Row]
	}
	c.admit(c.w.prim(max(0, c.w.root), cost))
}

func (c *chooser) admit(t arcs) {
	if _, h := c.w.center(t, c.delay); h <= c.height*(1+same) {
		c.pool.add(t)
	}
}

// solution returns the trees in use and their rates.
func (c *chooser) solution(s *selection) found {
	f := found{pool: c.pool}
	for i, r := range s.m.solution() {
		if k := s.trees[i]; k >= 0 && r > 0 {
			f.trees, f.rates = append(f.trees, k), append(f.rates, r)
		}
	}
	return f
}

// choose returns the best selection of at most the given number of trees that it finds: one that grows tree by tree,
// made better by swaps. Much of the problem is flat: many selections have the same rate, and no swap leads on. So the
// search begins again some times, from a part of the best or from nothing, with noise on the capacities, which makes
// every selection differ from the next, and ends with swaps under the true ones. It ends early near the bound.
func (c *chooser) choose(most int, bound float64) *selection {
	done := bound * (1 - same)
	best := c.swap(c.fill(c.of(nil), most), most, done)
	again := max(1, min(maxAgain, 5*most, 1_000_000/(c.w.n*len(c.w.Takes))))
	for i := 0; i < again && best.value < bound*enough; i++ {
		start := c.thin(best.key())
		if i%2 == 1 {
			start = nil
		}
		c.perturb()
		s := c.swap(c.fill(c.of(start), most), most, math.Inf(1))
		c.caps = c.w.Caps
		s = c.swap(c.of(s.key()), most, done)
		if s.value >= best.value*(1-same) { // an equal one too: it may lead on
			best = s
		}
	}
	return best
}

// perturb puts noise on the capacities.
func (c *chooser) perturb() {
	c.caps = slices.Clone(c.w.Caps)
	for r := range c.caps {
		c.caps[r] *= 1 + float64(noise*c.random.Float64())
	}
}

// thin leaves out a third of the trees, at random.
func (c *chooser) thin(trees []int) []int {
	c.random.Shuffle(len(trees), func(i, j int) { trees[i], trees[j] = trees[j], trees[i] })
	return trees[:len(trees)*2/3]
}

// fill adds, one by one, the tree that makes the selection best.
func (c *chooser) fill(s *selection, most int) *selection {
	for len(s.key()) < most {
		next := c.best(s, s, 0)
		if next == s {
			break
		}
		s = next
	}
	return s
}

// best returns the best selection of s and one tree more, or than where none is better by the margin.
func (c *chooser) best(s, than *selection, margin float64) *selection {
	for _, k := range c.candidates(s, max(2, min(maxTried, 50_000/len(c.w.Caps)))) { // fewer where a try takes long
		if next := c.with(s, k); next.value > than.value*(1+margin) {
			than = next
		}
	}
	return than
}

// swap replaces single trees, one after the other, until no swap makes the
// selection better.
func (c *chooser) swap(s *selection, most int, done float64) *selection {
	for i, idle := 0, 0; idle < most && s.value < done; i++ {
		trees := s.key()
		if k := i % most; k < len(trees) {
			trees = slices.Delete(trees, k, k+1)
		}
		better := c.best(c.of(trees), s, same)
		if idle++; better != s {
			s, idle = better, 0
		}
	}
	return s
}
