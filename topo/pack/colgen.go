package pack

import (
	"math"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// packing is the exact fractional packing of spanning trees by column
// generation: the program is solved over some trees, its prices are laid on
// the links, and the cheapest spanning tree under them is the one to add. When
// that tree costs as much as it brings, no other tree helps either.
//
// The same prices bound every packing: no packing is worth more than all rows together, and no tree costs less than the
// cheapest. So the result is certified whenever the search ends.
type packing struct {
	w    *network
	ways []*network
	caps []float64 // by row: those of the network, and of the roots
	pool *pool
	m    *master

	target float64 // of a packing for every root: the rate for which its rows are

	bound float64   // no packing has a larger rate
	proof []float64 // the prices that prove it: the cheapest tree costs 1

	seeds     []float64 // by tree: its rate among the seeds, before it is brought down
	certified bool      // the search came to its end
	left      float64   // work that is left for packings of lower trees
}

// work limits the search on large networks, in multiplications: about a second.
// 16 ranks take less than a tenth of it.
const work = 4e8

const (
	closed    = 1e-9 // relative gap at which the search ends
	turns     = 8    // of every rank, where each of them has seeds of its own
	smoothing = 0.5  // weight of the best prices so far in those that are tried first
)

func newPacking(w *network) *packing {
	p := &packing{w: w, ways: w.ways(), pool: newPool(w), caps: w.Caps, bound: math.Inf(1),
		left: work / 8}
	if w.root == EveryRoot {
		p.caps = append(slices.Clone(w.Caps), make([]float64, w.n)...)
	}
	p.proof = make([]float64, len(w.Caps))
	p.m = newMaster(p.caps, work)
	return p
}

// packed packs trees into g without any limit.
func packed(g *topo.Graph, root int) (*packing, error) {
	w, err := newNetwork(g, root)
	if err != nil {
		return nil, err
	}
	p := newPacking(w)
	if w.n == 1 {
		return p, nil
	}
	if root == EveryRoot {
		for _, halves := range w.sides() {
			if rate, price := w.across(halves); rate < p.bound {
				p.bound, p.proof = rate, price
			}
		}
		p.aim()
	}
	p.run()
	return p, nil
}

// add makes a tree known to the program and returns its number.
func (p *packing) add(t arcs) int {
	k, fresh := p.pool.add(t)
	if fresh {
		p.m.add(p.pool.cols[k])
	}
	return k
}

// try finds the cheapest tree of every root under the prices, and notes the bound
// that they prove.
func (p *packing) try(price, cost []float64) (trees []arcs) {
	p.w.costs(price, cost)
	least := 0.0
	for _, w := range p.ways {
		p.m.spent += w.effort()
		t := w.cheapest(cost)
		least += t.cost(cost)
		trees = append(trees, t)
	}
	least /= float64(len(p.ways))
	if least <= 0 {
		return trees
	}
	if b := p.w.worth(price) / least; b < p.bound {
		p.bound = b
		for r := range p.proof {
			p.proof[r] = price[r] / least
		}
	}
	return trees
}

// effort is an estimate of the steps to find a cheapest tree.
func (w *network) effort() float64 {
	arcs, n := float64(len(w.Takes)), float64(w.n)
	if w.root < 0 {
		return arcs + float64(n*n)
	}
	return arcs * n
}

// seed adds trees that share the rows: every tree makes the rows it takes dearer for the next (multiplicative weights).
// The rates that each tree could have alone, summed over the turns and brought down to the capacities, are a packing
// too: the one to fall back on where the program takes too long.
func (p *packing) seed(trees int) {
	price := make([]float64, len(p.caps))
	cost := make([]float64, len(p.w.Takes))
	for r, c := range p.caps {
		price[r] = 1 / c
	}
	effort := p.ways[0].effort()
	exact := 1 + int(work/8/effort) // then, one way, without Edmonds' detours
	for i := range trees {
		var t arcs
		switch n := len(p.ways); {
		case n > 1:
			if i%n == 0 && i > 0 && float64(i+n)*effort > work/2 {
				return // after whole turns
			}
			p.m.spent += effort
			p.w.costs(price, cost)
			t = p.ways[i%n].cheapest(cost)
		case i < exact:
			t = p.try(price, cost)[0]
		case p.w.root < 0:
			return
		default:
			p.w.costs(price, cost)
			t = p.w.prim(p.w.root, cost)
		}
		k := p.add(t)
		c := p.pool.cols[k]
		width := c.width(p.caps)
		for len(p.seeds) <= k {
			p.seeds = append(p.seeds, 0)
		}
		p.seeds[k] += width
		for i, r := range c.rows {
			price[r] *= 1 + float64(c.load[i]*width/p.caps[r]/2)
		}
	}
}

// rates returns the rate of every tree of the pool.
func (p *packing) rates() []float64 {
	rates := p.m.solution()
	if p.certified || len(p.seeds) == 0 {
		return rates
	}
	seeds := make([]float64, len(p.m.cols))
	copy(seeds, p.seeds)
	scale(seeds, headroom(seeds, p.m.cols, p.caps))
	if p.total(seeds) > p.total(rates) {
		return seeds
	}
	return rates
}

// total is the rate of a packing.
func (p *packing) total(rates []float64) float64 {
	if p.w.root == EveryRoot {
		return slices.Min(p.byRoot(rates)) * float64(p.w.n)
	}
	return numbers.Sum(rates)
}

// run solves the program, unless that takes too long.
func (p *packing) run() {
	if len(p.ways) == 1 {
		p.seed(2 * p.w.n)
	} else {
		p.seed(turns * p.w.n)
	}
	price := make([]float64, len(p.caps))
	mixed := make([]float64, len(p.caps))
	cost := make([]float64, len(p.w.Takes))
	trees := float64(len(p.pool.trees))
	if float64(len(p.caps))*trees*trees/2 > p.m.limit {
		return // a pivot for every tree, with as many tight rows as trees: it would not come to an end
	}
	for p.m.solve(10 * len(p.caps)) {
		p.m.prices(price)
		for r, y := range p.proof {
			mixed[r] = float64(smoothing*y) + float64((1-smoothing)*price[r])
		}
		gains := func(c *column) bool { return c.gain(price) > smallPrice }
		if slices.ContainsFunc(p.addNew(p.try(mixed, cost)), gains) {
			continue
		}
		cheapest := p.try(price, cost)
		switch done := p.m.value() >= p.bound*(1-closed) || len(p.addNew(cheapest)) == 0; {
		case done && p.target > p.bound*(1+same):
			p.aim()
		case done:
			p.certified = true
			return
		}
	}
}

// addNew makes trees known to the program, and returns the columns of those that
// are new to it.
func (p *packing) addNew(trees []arcs) []*column {
	known := len(p.pool.cols)
	for _, t := range trees {
		p.add(t)
	}
	return p.pool.cols[known:]
}
