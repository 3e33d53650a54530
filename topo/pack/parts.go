package pack

import (
	"fmt"
	"slices"
)

// MaxPartRanks is the largest number of ranks for which Pack packs for EveryRoot.
//
// There, trees are
// used one way, away from their root or towards it, and every rank is the
// root of as much rate as any other. A Result's Rate, its Rates and its Bound
// are those of the whole message, of which part r goes over the trees with root
// r; the rates of these sum up to an n-th of Rate. No direction of a link, and
// none of a port, carries more than it can with all trees in use. The slightest
// trees are left out, and so Rate can be a percent below the bound.
//
// Into a set S of the n ranks go the parts of the others, so no AllGather of
// rate T has T*(n-|S|)/n above what can pass into S. Without ports the least of
// these bounds is reached: add a source with an arc of capacity T/n to every
// rank. By Edmonds' theorem (1973) trees of rate T from there fit in when no cut
// is below T, and each takes one of the source's arcs, as these are worth T
// together. T comes from Newton's method: where the cut is below T, T becomes
// what that cut allows (as in ForestColl, Zhao et al. 2024, by a search there).
const MaxPartRanks = 64

// aim lets the trees of every root have their part of the bound.
func (p *packing) aim() {
	p.target = p.bound
	for v := range p.w.n {
		p.caps[len(p.w.caps)+v] = p.target / float64(p.w.n)
	}
	p.m = newMaster(p.caps, work, p.pool.cols...)
}

// slightest is the share of a part below which a tree is left out: it would
// cost more in its own right than it carries.
const slightest = 1.0 / 400

// partTrees returns the trees by their root. Where the search was cut short, or
// figures were rounded, every rank gets the rate of the one that has the least.
func (p *packing) partTrees() (*Result, error) {
	n := p.w.n
	rates, latency := p.rates(), p.w.delays(true)
	for k, rate := range rates {
		if rate <= p.bound*slightest/float64(n) {
			rates[k] = 0
		}
	}
	sums := p.byRoot(rates)
	least := slices.Min(sums)
	if least == 0 {
		return nil, fmt.Errorf("pack: no tree was found for part %d of %d", slices.Index(sums, least), n)
	}
	r := &Result{Bound: p.proven()}
	for root, sum := range sums {
		for k, t := range p.pool.trees {
			if rates[k] > 0 && t[root] < 0 {
				r.add(p.w, t, root, rates[k]*least/sum, latency)
			}
		}
	}
	r.Ratio = r.Rate / r.Bound.Rate
	return r, nil
}

// byRoot sums up the rates of the trees of every root.
func (p *packing) byRoot(rates []float64) []float64 {
	sums := make([]float64, p.w.n)
	for k, t := range p.pool.trees {
		sums[t.root()] += rates[k]
	}
	return sums
}
