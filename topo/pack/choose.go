package pack

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// chooser picks at most so many trees, and their rates, with a large sum: step
// 3 of the patent, which leaves open how. With a limit on the number of trees
// the problem is NP-hard; this is forward selection with a small beam, in which
// the linear program sets all rates anew for every tree that is tried, and then
// swaps of single trees.
//
// The trees come from a pool, which grows: for every selection also the tree
// that gains the most under the prices of its program, and the widest tree in
// what it leaves over.
type chooser struct {
	w      *network
	pool   *pool
	accept func(arcs) bool // whether a tree may be taken: its height
	random *rand.Rand
	caps   []float64    // by row: the capacity, or one with noise
	widths []float64    // by tree of the pool: the rate it has by itself
	spent  []*selection // whose memory can be used again
}

// selection is some trees of the pool with their program, solved.
type selection struct {
	m     *master
	trees []int // by column of m; forgotten ones are -1
	value float64
}

const (
	beam      = 4  // selections that are kept
	mostTried = 48 // trees that are tried for one selection, the most promising first,
	fewTried  = 12 // and when others are swapped for them; less on large networks

	mostSwapped = 2 // selections that are made better by swaps
	mostAgain   = 2 // searches with noise; fewer where they take long
	noise       = 0.05

	mostEqual       = 16   // trees of equal rate that are looked for at most,
	mostEqualCopies = 2000 // and copies of links that they are made of
)

// key names the set of trees.
func (s *selection) key() []int {
	list := slices.DeleteFunc(slices.Clone(s.trees), func(k int) bool { return k < 0 })
	slices.Sort(list)
	return list
}

// with returns the selection with one tree more, solved; trees that get no
// rate are dropped.
func (c *chooser) with(s *selection, tree int) *selection {
	old := &selection{}
	if last := len(c.spent) - 1; last >= 0 {
		old, c.spent = c.spent[last], c.spent[:last]
	}
	next := &selection{m: s.m.clone(old.m), trees: append(append(old.trees[:0], s.trees...), tree)}
	next.m.add(c.pool.cols[tree])
	c.settle(next)
	return next
}

// better returns next if its value is above that of best, by a share of it, and
// best otherwise. What it does not return is used up, unless it is keep.
func (c *chooser) better(keep, best, next *selection, by float64) *selection {
	if next.value <= best.value*(1+by) {
		best, next = next, best
	}
	if best != keep {
		c.spent = append(c.spent, best)
	}
	return next
}

func (c *chooser) settle(s *selection) {
	s.m.solve(100 + 10*len(s.trees))
	s.value = s.m.value()
	for i := range s.trees {
		if !s.m.used[i] {
			s.m.forget(i)
			s.trees[i] = -1
		}
	}
}

// of returns the selection of the given trees.
func (c *chooser) of(trees []int) *selection {
	s := &selection{m: newMaster(c.caps), trees: slices.Clone(trees)}
	for _, k := range trees {
		s.m.add(c.pool.cols[k])
	}
	c.settle(s)
	return s
}

// candidates returns the trees that are worth a try in s: those that gain
// something, the ones with the largest gain and the most room first. It adds
// trees to the pool.
func (c *chooser) candidates(s *selection, most int) []int {
	price := make([]float64, len(c.w.caps))
	s.m.prices(price)
	left := slices.Clone(c.caps)
	for r, l := range loads(s.m.solution(), s.m.cols, len(left)) {
		left[r] = max(0, left[r]-l)
	}
	c.grow(price, left)
	var list []candidate // the best, best first
	for k, col := range c.pool.cols {
		g := s.m.gain(col, price)
		if g <= smallPrice {
			continue
		}
		// Room that is left counts most: nothing needs to give way.
		score := g * (col.width(left) + 0.1*c.alone(k))
		if len(list) == most && score <= list[most-1].score {
			continue
		}
		at, _ := slices.BinarySearchFunc(list, score, func(e candidate, score float64) int {
			if e.score >= score {
				return -1
			}
			return 1
		})
		list = slices.Insert(list[:min(len(list), most-1)], min(at, most-1), candidate{k, score})
	}
	trees := make([]int, len(list))
	for i, e := range list {
		trees[i] = e.tree
	}
	return trees
}

// candidate is a tree of the pool that may be worth a try.
type candidate struct {
	tree  int
	score float64
}

// alone is the rate that a tree of the pool has by itself.
func (c *chooser) alone(k int) float64 {
	for len(c.widths) <= k {
		c.widths = append(c.widths, c.pool.cols[len(c.widths)].width(c.w.caps))
	}
	return c.widths[k]
}

// grow adds to the pool two cheapest trees under the prices, and the widest
// tree in what is left of the rows.
func (c *chooser) grow(price, left []float64) {
	cost := make([]float64, len(c.w.taken))
	c.w.costs(price, cost)
	for range 2 {
		for l := range len(cost) / 2 { // decides between equals
			f := 1e-6 * c.random.Float64()
			cost[2*l] += f
			cost[2*l+1] += f
		}
		c.offer(c.w.cheapest(cost))
	}
	c.offer(c.w.widest(left))
}

func (c *chooser) offer(t arcs) {
	if c.accept == nil || c.accept(t) {
		c.pool.add(t)
	}
}

// solution returns the trees in use and their rates.
func (s *selection) solution() (trees []int, rates []float64) {
	for i, r := range s.m.solution() {
		if k := s.trees[i]; k >= 0 && r > 0 {
			trees = append(trees, k)
			rates = append(rates, r)
		}
	}
	return trees, rates
}

// choose returns the best selection of at most so many trees that it finds: of
// those that forward selection leads to, of what backward elimination leaves
// of free, and of starts, each made better by swaps.
//
// Much of the problem is flat: many selections have the same rate, and no swap
// leads on. So the search begins again some times with noise on the
// capacities, which makes every selection differ from the next, and ends with
// swaps under the true ones. It ends early at the bound.
func (c *chooser) choose(most int, free []int, starts [][]int, bound float64) *selection {
	list := append(c.forward(most), c.backward(most, free))
	for _, trees := range starts {
		list = append(list, c.of(trees))
	}
	done := bound * (1 - same)
	list = c.best(list)
	best := list[0]
	for _, s := range list[:min(len(list), mostSwapped)] {
		if s = c.swap(s, most, done); s.value > best.value*(1+same) {
			best = s
		}
	}
	again := min(mostAgain, 600/len(c.w.caps), 48/most)
	for i := 0; i < again && best.value < done; i++ {
		start := c.thin(best.key())
		if i%2 == 1 {
			start = nil
		}
		c.shake()
		s := c.swap(c.fill(c.of(start), most), most, math.Inf(1))
		c.caps = c.w.caps
		s = c.swap(c.of(s.key()), most, done)
		if s.value >= best.value*(1-same) { // an equal one too: it may lead on
			best = s
		}
	}
	return best
}

// tries lowers a number of trees to try where a try takes long.
func (c *chooser) tries(most int) int {
	return max(2, min(most, 50_000/len(c.w.caps)))
}

// shake puts noise on the capacities.
func (c *chooser) shake() {
	c.caps = slices.Clone(c.w.caps)
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
		best := s
		for _, k := range c.candidates(s, c.tries(fewTried)) {
			best = c.better(s, best, c.with(s, k), 0)
		}
		if best == s {
			break
		}
		s = best
	}
	return s
}

// backward leaves out one tree after the other: of the slowest ones, that which
// is missed the least.
func (c *chooser) backward(most int, trees []int) *selection {
	s := c.of(trees)
	for {
		left, rates := s.solution()
		if len(left) <= most {
			return c.of(left)
		}
		var best *selection
		for range min(beam, len(left)-1) {
			i := argmin(rates)
			rates[i] = math.Inf(1)
			if next := c.of(slices.Delete(slices.Clone(left), i, i+1)); best == nil || next.value > best.value {
				best = next
			}
		}
		s = best
	}
}

// forward adds one tree after the other. It returns the best selections of all
// sizes.
func (c *chooser) forward(most int) []*selection {
	front := []*selection{c.of(nil)}
	var best []*selection
	for size := range most {
		var next []*selection
		for _, s := range front {
			for _, k := range c.candidates(s, c.tries(mostTried/(1+size/4))) {
				next = append(next, c.with(s, k))
			}
		}
		front = c.best(next)
		if len(front) == 0 {
			break
		}
		best = c.best(append(best, front...))
	}
	return best
}

// best returns the best of the selections, no two of the same trees.
func (c *chooser) best(list []*selection) []*selection {
	slices.SortStableFunc(list, func(a, b *selection) int {
		if c := cmp.Compare(b.value, a.value); c != 0 {
			return c
		}
		return slices.Compare(a.key(), b.key())
	})
	list = slices.CompactFunc(list, func(a, b *selection) bool { return slices.Equal(a.key(), b.key()) })
	return list[:min(len(list), beam)]
}

// swap replaces single trees, one after the other, until no swap makes the
// selection better.
func (c *chooser) swap(s *selection, most int, done float64) *selection {
	for i, idle := 0, 0; idle < most && s.value < done; i++ {
		trees := s.key()
		if k := i % most; k < len(trees) {
			trees = slices.Delete(trees, k, k+1)
		}
		rest := c.of(trees)
		better := s
		for _, k := range c.candidates(rest, c.tries(fewTried)) {
			better = c.better(s, better, c.with(rest, k), same)
		}
		if idle++; better != s {
			s, idle = better, 0
		}
	}
	return s
}

// stock fills the pool with trees of different making: the patent's greedy
// search for several quanta, and trees that fit with equal rates.
func (x *packer) stock(c *chooser, most int, height float64) {
	for _, parts := range []float64{1, 2, 4, 16} {
		p := newPool(x.w)
		newGreedy(x.w, x.delay, height, x.o.MinRate, max(x.o.MinRate, x.free.bound/parts), x.o.Seed).trees(p)
		for _, t := range p.trees {
			c.pool.add(t)
		}
	}
	c.offer(x.w.widest(x.w.caps))
}

// starts returns selections to begin the swaps with: trees of equal rate.
func (x *packer) starts(c *chooser, most int) [][]int {
	if x.w.root >= 0 || most > mostEqual || most*len(x.w.g.Links) > mostEqualCopies {
		return nil
	}
	var starts [][]int
	for trees := 2; trees <= most; trees++ {
		if trees > 4 && trees < most-1 {
			continue
		}
		var equal []int
		for _, t := range x.w.equalTrees(trees, x.free.bound/float64(trees)*(1+same)) {
			if c.accept == nil || c.accept(t) {
				k, _ := c.pool.add(t)
				equal = append(equal, k)
			}
		}
		if len(equal) > 0 {
			slices.Sort(equal)
			starts = append(starts, slices.Compact(equal))
		}
	}
	return starts
}
