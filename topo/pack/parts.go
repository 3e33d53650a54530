package pack

import (
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/topo"
)

// MaxPartRanks is the largest number of ranks for which PackParts packs.
const MaxPartRanks = 64

// PackParts packs trees for AllGather and ReduceScatter into g: trees that are
// used one way, away from their root or towards it, of which every rank is the
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
//
// The error is for a graph that is not valid or has more than MaxPartRanks.
func PackParts(g *topo.Graph) (*Result, error) {
	x, err := newParts(g)
	if err != nil {
		return nil, err
	}
	if x.n == 1 {
		return alone(x.w), nil
	}
	return x.result(x.pack())
}

// PartsBound returns the largest rate of an AllGather or a ReduceScatter over
// the links of g, as PackParts finds it, with its proof.
func PartsBound(g *topo.Graph) (Bound, error) {
	x, err := newParts(g)
	if err != nil {
		return Bound{}, err
	}
	if x.n == 1 {
		return Bound{Rate: math.Inf(1), Root: -1, Parts: true}, nil
	}
	x.pack()
	return x.bound, nil
}

// parts is one search for the rate of an AllGather.
type parts struct {
	g     *topo.Graph
	n     int
	w     *network // with the source as rank n, and its links behind those of g
	rows  int      // of g, before those of the source
	bound Bound    // the least that was proved
}

func newParts(g *topo.Graph) (*parts, error) {
	w, err := newNetwork(g, 0)
	if err != nil {
		return nil, err
	}
	if g.Ranks > MaxPartRanks {
		return nil, fmt.Errorf("pack: graph of %d ranks, want at most %d to pack trees for every part", g.Ranks, MaxPartRanks)
	}
	w.thin()
	return &parts{g: g, n: g.Ranks, w: w, rows: len(w.caps), bound: Bound{Rate: math.Inf(1), Root: -1, Parts: true}}, nil
}

// pack returns the last packing of Newton's method.
func (x *parts) pack() *packing {
	for _, halves := range x.w.sides() {
		x.across(halves[0], halves[1])
		x.across(halves[1], halves[0])
	}
	x.addSource()
	for range 4 * x.n {
		rate := x.bound.Rate
		for v := range x.n {
			x.w.caps[x.rows+v] = rate / float64(x.n)
		}
		p := newPacking(x.w)
		p.pick = x.fromEach
		p.run()
		if p.bound < rate*(1-same) {
			x.lower(p)
		}
		if x.bound.Rate > rate*(1-same) {
			return p
		}
	}
	return nil // each turn takes another cut: there are not so many that matter
}

// addSource adds rank n, with a link to every rank that crosses no port.
func (x *parts) addSource() {
	w, n, first := x.w, x.n, len(x.g.Links)
	g := &topo.Graph{Ranks: n + 1, Links: slices.Clone(x.g.Links), Ports: x.g.Ports}
	w.near = append(w.near, nil)
	for v := range n {
		l := first + v
		g.Links = append(g.Links, topo.Link{A: n, B: v, GBytesPerSecond: 1})
		w.near[n] = append(w.near[n], arc{v, int32(2 * l)})
		w.near[v] = append(w.near[v], arc{n, int32(2*l + 1)})
		row := w.row(0, label{link: l, port: -1})
		w.taken = append(w.taken, []int32{row}, []int32{row})
	}
	w.g, w.n, w.root = g, n+1, n
}

// fromEach returns the cheapest tree of one rank after the other, the source's
// arc to it in front.
func (x *parts) fromEach(turn int, cost []float64) arcs {
	far := 1.0
	for _, c := range cost {
		far += c
	}
	first := 2 * len(x.g.Links)
	for v := range x.n {
		if v != turn%x.n {
			cost[first+2*v] += far
		}
	}
	return x.w.edmonds(cost)
}

// across proves the bound of one cut: what can pass from the ranks outside into
// the set, against the parts that have to.
func (x *parts) across(set, outside []int) {
	w := *x.w
	w.root = outside[0]
	rate, price := w.across(halves(x.n, set))
	x.offer(rate, price, float64(len(outside))/float64(x.n), halves(x.n, set))
}

// lower proves the bound that the prices of a packing at the present rate lead
// to, and those of the cuts that they point at. Where the prices are z on the
// source's arcs and y elsewhere, worth Y, trees of rate T cost at least T, so
// T <= Y + T/n * sum z.
func (x *parts) lower(p *packing) {
	source := 0.0
	for _, z := range p.proof[x.rows:] {
		source += z
	}
	price := slices.Clone(p.proof[:x.rows])
	worth := 0.0
	for r, y := range price {
		worth += float64(x.w.caps[r] * y)
	}
	x.offer(worth, price, 1-source/float64(x.n), nil)
	plain := &parts{g: x.g, n: x.n, rows: x.rows, bound: x.bound, w: x.plain()}
	for _, list := range x.w.candidates(p.proof) {
		for _, set := range list {
			if len(set) >= x.n || slices.Contains(set, x.n) {
				continue
			}
			inside := halves(x.n, set)
			if slices.Contains(inside[1], set[0]) {
				inside[0], inside[1] = inside[1], inside[0]
			}
			plain.across(inside[0], inside[1])
		}
	}
	x.bound = plain.bound
}

// plain is the network without the source.
func (x *parts) plain() *network {
	w := *x.w
	w.g, w.n, w.root = x.g, x.n, 0
	w.caps, w.labels, w.taken = w.caps[:x.rows], w.labels[:x.rows], w.taken[:2*len(x.g.Links)]
	w.near = make([][]arc, x.n)
	for v := range w.near {
		w.near[v] = x.w.near[v][:len(x.w.near[v])-1]
	}
	return &w
}

// offer keeps the bound of prices, worth so much, under which the share of the
// message that they see costs 1, if it is the least so far; of equal ones that
// of a cut.
func (x *parts) offer(worth float64, price []float64, share float64, cut [][]int) {
	if share < same || !(worth > 0) {
		return
	}
	rate := worth / share
	least := x.bound.Rate
	if rate > least*(1+same) || rate > least*(1-same) && (cut == nil || x.bound.Partition != nil) {
		return
	}
	w := *x.w
	if len(w.caps) > x.rows {
		w = *x.plain()
	}
	price = slices.Clone(price[:x.rows])
	for r := range price {
		price[r] /= share
	}
	w.root = -1
	x.bound = w.priced(rate, price, cut)
	x.bound.Parts = true
}

// slightest is the share of a part below which a tree is left out: it would
// cost more in its own right than it carries.
const slightest = 1.0 / 400

// result takes the trees of a packing, without the source. Where the search was
// cut short, or figures were rounded, every rank gets the rate of the one that
// has the least.
func (x *parts) result(p *packing) (*Result, error) {
	r := &Result{Bound: x.bound}
	if p == nil {
		return nil, fmt.Errorf("pack: no rate for the parts of %d ranks was found", x.n)
	}
	latency := x.w.delays(Microseconds)
	rates := p.m.solution()
	if seeds := p.seeded(); !p.certified && slices.Min(x.sums(p, seeds)) > slices.Min(x.sums(p, rates)) {
		rates = seeds
	}
	sums := make([]float64, x.n)
	for root := range x.n {
		for k, rate := range rates {
			t, from, ok := x.tree(p.pool.trees[k])
			if !ok || from != root || rate <= x.bound.Rate*slightest/float64(x.n) {
				continue
			}
			height := slices.Max(x.w.treeDistances(x.n, p.pool.trees[k], latency))
			r.Trees, r.Rates = append(r.Trees, t), append(r.Rates, rate)
			r.HeightsUs = append(r.HeightsUs, height)
			sums[root] += rate
		}
	}
	least := slices.Min(sums)
	if least == 0 {
		return nil, fmt.Errorf("pack: no tree was found for part %d of %d", argmin(sums), x.n)
	}
	for i, t := range r.Trees {
		r.Rates[i] *= least / sums[t.Root]
		r.Rate += r.Rates[i]
	}
	r.Ratio = r.Rate / r.Bound.Rate
	return r, nil
}

// sums returns the rates of all trees by their root.
func (x *parts) sums(p *packing, rates []float64) []float64 {
	sums := make([]float64, x.n)
	for k, rate := range rates {
		if _, root, ok := x.tree(p.pool.trees[k]); ok && rate > x.bound.Rate*slightest/float64(x.n) {
			sums[root] += rate
		}
	}
	return sums
}

// tree returns t below the source, and its root; not ok where the source has
// several children.
func (x *parts) tree(t arcs) (tree topo.Tree, root int, ok bool) {
	root = -1
	tree.Parent = make([]int, x.n)
	for v := range x.n {
		tree.Parent[v] = x.w.parent(t[v])
		if tree.Parent[v] != x.n {
			continue
		}
		if root >= 0 {
			return tree, 0, false
		}
		root, tree.Root, tree.Parent[v] = v, v, -1
	}
	return tree, root, root >= 0
}
