package pack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// Result is a packing, and the proof of how good it is.
type Result struct {
	Trees     []topo.Tree // the fastest first; each rooted in its centre
	Rates     []float64   // by tree, GB/s; their shares of a large message
	HeightsUs []float64   // by tree: latency from the root to the farthest rank

	Rate  float64 // the sum of the rates, GB/s
	Bound Bound   // no packing has more; limits on number, height and rate are not in it
	Ratio float64 // Rate / Bound.Rate
	Note  string  // why a limit was not kept; empty otherwise
}

// alone is the packing of one rank, which sends nothing.
func alone(w *network) *Result {
	return &Result{
		Trees: []topo.Tree{{Parent: []int{-1}}}, Rates: []float64{1}, HeightsUs: []float64{0},
		Rate: 1, Bound: w.priced(1, nil, nil), Ratio: 1, Note: "one rank sends nothing; its rate says nothing",
	}
}

func (x *packer) result(f found) *Result {
	r := &Result{Bound: x.free.proven(), Note: strings.Join(x.notes, "; ")}
	latency := x.w.delays(true)
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
		root, _ := x.w.centre(t, x.delay)
		r.add(x.w, t, root, f.rates[i], latency)
	}
	r.Ratio = r.Rate / r.Bound.Rate
	return r
}

func (r *Result) add(w *network, t arcs, root int, rate float64, latency []float64) {
	r.Trees = append(r.Trees, w.rooted(t, root))
	r.Rates = append(r.Rates, rate)
	r.HeightsUs = append(r.HeightsUs, slices.Max(w.treeDistances(root, t, latency)))
	r.Rate += rate
}

// String says in one sentence what the limit is.
func (b Bound) String() string {
	if b.Partition == nil && len(b.Prices) == 0 {
		return "none: one rank sends nothing"
	}
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
