package pack

import (
	"math"
	"slices"
)

// packing is the exact fractional packing of spanning trees by column
// generation: the program is solved over some trees, its prices are laid on
// the links, and the cheapest spanning tree under them is the one to add. When
// that tree costs as much as it brings, no other tree helps either.
//
// The same prices bound every packing: all rows together are worth what they
// are worth, and no tree costs less than the cheapest. So the result is
// certified whenever the search ends.
type packing struct {
	w    *network
	pool *pool
	m    *master

	bound float64   // no packing has a larger rate
	proof []float64 // the prices that say so: the cheapest tree costs 1

	pick func(turn int, cost []float64) arcs // a cheap tree of the seeds; nil: the cheapest

	seeds     []float64 // by tree: its rate among the seeds, before it is brought down
	certified bool      // the search came to its end
}

// work limits the search on large networks, in multiplications: about a second.
// 16 ranks take less than a tenth of it.
const work = 4e8

const (
	closed     = 1e-9 // relative gap at which the search ends
	turns      = 8    // of every rank, where each of them has seeds of its own
	worthwhile = 1.1  // gain for which rates that are even are made uneven: a message waits for the slowest tree
	smoothing  = 0.5  // weight of the best prices so far in those that are tried first
)

func newPacking(w *network) *packing {
	p := &packing{w: w, pool: newPool(w), m: newMaster(w.caps), bound: math.Inf(1), proof: make([]float64, len(w.caps))}
	p.m.limit = work
	return p
}

// add makes a tree known to the program and returns its number.
func (p *packing) add(t arcs) int {
	k, fresh := p.pool.add(t)
	if fresh {
		p.m.add(p.pool.cols[k])
	}
	return k
}

// try finds the cheapest tree under the prices, and notes the bound that they
// prove.
func (p *packing) try(price, cost []float64) arcs {
	p.m.spent += p.w.effort()
	p.w.costs(price, cost)
	t := p.w.cheapest(cost)
	least := t.cost(cost)
	if least <= 0 {
		return t
	}
	if b := p.w.worth(price) / least; b < p.bound {
		p.bound = b
		for r, y := range price {
			p.proof[r] = y / least
		}
	}
	return t
}

// effort is what a cheapest tree takes.
func (w *network) effort() float64 {
	arcs, n := float64(len(w.taken)), float64(w.n)
	if w.root < 0 {
		return arcs + n*n
	}
	return arcs * n
}

// seed adds trees that share the rows: every tree makes the rows it takes
// dearer for the next (multiplicative weights). What each tree could have alone,
// summed over the turns and brought down to the capacities, is a packing too:
// the one to fall back on where the program takes too long.
func (p *packing) seed(trees int) {
	price := make([]float64, len(p.w.caps))
	cost := make([]float64, len(p.w.taken))
	for r, c := range p.w.caps {
		price[r] = 1 / c
	}
	exact := 1 + int(work/8/p.w.effort()) // then, one way, without Edmonds' detours
	for i := range trees {
		var t arcs
		switch {
		case p.pick != nil:
			if n := p.w.n - 1; i%n == 0 && i > 0 && float64(i+n)*p.w.effort() > work/2 {
				return // after whole turns
			}
			p.m.spent += p.w.effort()
			p.w.costs(price, cost)
			t = p.pick(i, cost)
		case i < exact:
			t = p.try(price, cost)
		case p.w.root < 0:
			return
		default:
			p.w.costs(price, cost)
			t = p.w.prim(p.w.root, cost)
		}
		k := p.add(t)
		c := p.pool.cols[k]
		width := c.width(p.w.caps)
		for len(p.seeds) <= k {
			p.seeds = append(p.seeds, 0)
		}
		p.seeds[k] += width
		for i, r := range c.rows {
			price[r] *= 1 + float64(c.load[i]*width/p.w.caps[r])/2
		}
	}
}

// rates returns the rate of every tree of the pool.
func (p *packing) rates() []float64 {
	rates := p.m.solution()
	if p.certified || len(p.seeds) == 0 {
		return rates
	}
	seeds := p.seeded()
	even := total(seeds)
	filled := slices.Clone(seeds)
	if fill(filled, p.m.cols, p.w.caps); total(filled) > even*worthwhile {
		seeds = filled
	}
	if total(seeds) > total(rates) {
		return seeds
	}
	return rates
}

// seeded returns the rates of the seeds, brought down to the capacities.
func (p *packing) seeded() []float64 {
	seeds := make([]float64, len(p.m.cols))
	copy(seeds, p.seeds)
	fit(seeds, p.m.cols, p.w.caps)
	return seeds
}

// run solves the program, unless that takes too long.
func (p *packing) run() {
	if p.pick == nil {
		p.seed(2 * p.w.n)
	} else {
		p.seed(turns * (p.w.n - 1))
	}
	price := make([]float64, len(p.w.caps))
	mixed := make([]float64, len(p.w.caps))
	cost := make([]float64, len(p.w.taken))
	trees := float64(len(p.pool.trees))
	if float64(len(p.w.caps))*trees*trees/2 > p.m.limit {
		return // a pivot for every tree, with as many tight rows as trees: it would not come to an end
	}
	for p.m.solve(10 * len(p.w.caps)) {
		p.m.prices(price)
		for r := range mixed {
			mixed[r] = float64(smoothing*p.proof[r]) + float64((1-smoothing)*price[r])
		}
		known := len(p.pool.trees)
		if k := p.add(p.try(mixed, cost)); k == known && p.pool.cols[k].gain(price) > smallPrice {
			continue
		}
		known = len(p.pool.trees)
		t := p.try(price, cost)
		if p.m.value() >= p.bound*(1-closed) || p.add(t) < known {
			p.certified = true
			return
		}
	}
}
