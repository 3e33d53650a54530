package pack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// Result is a packing, and the proof of how good it is.
type Result struct {
	Trees []topo.Tree // the fastest first; each rooted in its center
	Rates []float64   // by tree, GB/s; their shares of a large message

	Rate  float64 // the sum of the rates, GB/s
	Bound Bound   // no packing has more; limits on number, height and rate are not in it
	Ratio float64 // Rate / Bound.Rate
	Note  string  // why a limit was not kept; empty otherwise
}

// alone is the packing of one rank, which sends nothing.
func alone(w *network) *Result {
	return &Result{
		Trees: []topo.Tree{{Parent: []int{-1}}}, Rates: []float64{1},
		Rate: 1, Bound: w.priced(1, nil, nil), Ratio: 1, Note: "one rank sends nothing; its rate has no meaning",
	}
}

func (x *packer) result(f found) *Result {
	r := &Result{Bound: x.free.proven(), Note: strings.Join(x.notes, "; ")}
	order := numbers.Order(len(f.trees), func(i, j int) int {
		switch a, b := f.rates[i], f.rates[j]; {
		case a > b*(1+same):
			return -1
		case b > a*(1+same):
			return 1
		}
		return slices.Compare(f.pool.trees[f.trees[i]].links(), f.pool.trees[f.trees[j]].links())
	})
	for _, i := range order {
		t := f.pool.trees[f.trees[i]]
		root, _ := x.w.center(t, x.delay)
		r.add(x.w, t, root, f.rates[i])
	}
	r.Ratio = r.Rate / r.Bound.Rate
	return r
}

func (r *Result) add(w *network, t arcs, root int, rate float64) {
	r.Trees = append(r.Trees, w.rooted(t, root))
	r.Rates = append(r.Rates, rate)
	r.Rate += rate
}

// String describes the limit in one sentence, and names what is not in it.
func (b Bound) String() string {
	if b.Partition == nil && len(b.Prices) == 0 {
		return "none: one rank sends nothing"
	}
	if left := b.LeftOut(); left != "" {
		return b.limit() + "; " + left + " are not in it"
	}
	return b.limit()
}

// LeftOut describes what a bound does not count; "" is nothing.
func (b Bound) LeftOut() string {
	if b.InSwitch == "" {
		return ""
	}
	return fmt.Sprintf("reduction and multicast inside a switch (ports of kind %q)", b.InSwitch)
}

func (b Bound) limit() string {
	what := b.what()
	if b.Partition == nil {
		return fmt.Sprintf("%s together: under the prices that prove it every tree costs at least 1, and all of them are "+
			"worth %.4g GB/s", what, b.Rate)
	}
	verb := "are"
	if len(b.Links)+len(b.Ports) == 1 {
		verb = "is"
	}
	s := fmt.Sprintf("%s between %s %s the limit", what, b.parts(), verb)
	if b.Root == EveryRoot {
		in, out := len(b.Partition[0]), len(b.Partition[1])
		return s + fmt.Sprintf(": %d of %d parts pass there one way, and %d the other", out, in+out, in)
	}
	if need := len(b.Partition) - 1; need > 1 {
		s += fmt.Sprintf(": at most %.4g GB/s can pass between the parts, and every tree passes there %d times",
			b.Rate*float64(need), need)
	}
	return s
}

const maxNamed = 6 // links, ports or parts that are named one by one

// what names the links and the ports.
func (b Bound) what() string {
	var kinds []string
	if n := len(b.Links); n > 0 {
		s := "this link"
		if n > 1 {
			s = fmt.Sprintf("these %d links", n)
		}
		if n <= maxNamed {
			var names []string
			for _, l := range b.Links {
				names = append(names, fmt.Sprintf("%d-%d", l.A, l.B))
			}
			s += " (" + strings.Join(names, ", ") + ")"
		}
		kinds = append(kinds, s)
	}
	if n := len(b.Ports); n > 0 {
		var names []string
		for _, p := range b.Ports[:min(n, maxNamed)] {
			names = append(names, fmt.Sprintf("%q", p.Name))
		}
		if n > maxNamed {
			names = append(names, fmt.Sprintf("and %d more", n-maxNamed))
		}
		kinds = append(kinds, fmt.Sprintf("the %s %s", numbers.Plural(n, "port"), strings.Join(names, ", ")))
	}
	return strings.Join(kinds, " and ")
}

// parts names the parts of the partition.
func (b Bound) parts() string {
	ranks := 0
	var sets []string
	for _, p := range b.Partition {
		ranks += len(p)
		sets = append(sets, set(p))
	}
	n := len(sets)
	switch {
	case n == 2:
		return sets[0] + " and " + sets[1]
	case n == ranks:
		return fmt.Sprintf("all %d ranks", n)
	case n > maxNamed:
		return fmt.Sprintf("%d parts: %s and %d more", n, strings.Join(sets[:maxNamed], " "), n-maxNamed)
	}
	return fmt.Sprintf("the %d parts %s", n, strings.Join(sets, " "))
}

// set writes rising ranks as "{0-3,7}".
func set(ranks []int) string { return "{" + topo.RankList(ranks) + "}" }

// MaxPartRanks is the largest number of ranks for which Pack packs for EveryRoot.
//
// There, trees are used one way, away from their root or towards it, and every rank is the root of as much rate as any
// other. A Result's Rate, its Rates and its Bound are those of the whole message, of which part r goes over the trees
// with root r; the rates of these sum up to an n-th of Rate. No direction of a link, and none of a port, carries more
// than it can with all trees in use. The slightest trees are left out, and so Rate can be a percent below the bound.
//
// Into a set S of the n ranks go the parts of the others, so no AllGather of rate T has T*(n-|S|)/n above the rate that
// can pass into S. Without ports the least of these bounds is reached: add a source with an arc of capacity T/n to
// every rank. By Edmonds' theorem (1973) trees of rate T from there fit in when no cut is below T, and each takes one
// of the source's arcs, as these are worth T together. T comes from Newton's method: where the cut is below T, T
// becomes the rate that this cut allows (as in ForestColl, Zhao et al. 2024, by a search there).
const MaxPartRanks = 64

// aim lets the trees of every root have their part of the bound.
func (p *packing) aim() {
	p.target = p.bound
	for v := range p.w.n {
		p.caps[len(p.w.Caps)+v] = p.target / float64(p.w.n)
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
	rates := p.rates()
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
				r.add(p.w, t, root, rates[k]*least/sum)
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

// Shares divides a message of the given number of bytes among trees that work at the same time, each with a rate in
// GB/s and a latency in microseconds, so that they end together and as soon as possible: tree i gets b_i*(T - L_i)
// bytes, or nothing when its latency alone is T or more, where T is the least time in which all is done (water
// filling). It returns the shares in bytes, which sum to bytes, and T in microseconds.
//
// Rates must be above zero and latencies not below it; there must be a tree.
func Shares(rates, latenciesUs []float64, bytes float64) (shares []float64, timeUs float64) {
	// The order in which a growing message takes the trees in.
	order := numbers.Order(len(rates), func(i, j int) int { return cmp.Compare(latenciesUs[i], latenciesUs[j]) })
	rate, begun := 0.0, 0.0 // of the trees in use, and their bytes missing at time 0
	for i, k := range order {
		rate += rates[k]
		begun += float64(rates[k] * latenciesUs[k])
		timeUs = (bytes/bytesPerUs + begun) / rate
		if i+1 == len(order) || timeUs <= latenciesUs[order[i+1]] {
			break
		}
	}
	shares = make([]float64, len(rates))
	for k, b := range rates {
		shares[k] = b * max(0, timeUs-latenciesUs[k]) * bytesPerUs
	}
	return shares, timeUs
}

// bytesPerUs is 1 GB/s in bytes per microsecond.
const bytesPerUs = 1e3
