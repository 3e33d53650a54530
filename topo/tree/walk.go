package tree

import (
	"cmp"
	"math"
	"slices"
)

// The orders that one search tries, and a bound on tries times ranks squared.
const (
	maxWalks = 64
	walkWork = 20_000_000
)

// walk returns an order of all ranks in which each has a link to the next, and
// the rate of its slowest link: a path from the given start, or with start -1 a
// ring, beginning with rank 0. It looks for the quickest slowest link, and for
// the largest total rate with it. Where it finds no such order the rate is 0,
// and the order lacks as few links as it can; without any link it is nil.
func walk(g *net, start int) (order []int, least float64) {
	if g.n == 1 {
		return []int{0}, 0
	}
	var rates []float64 // of the links, rising
	for _, l := range slices.Backward(g.links()) {
		rates = append(rates, l.GBytesPerSecond)
	}
	if rates = slices.Compact(rates); len(rates) == 0 {
		return nil, 0
	}
	w := &walker{g: g, start: start, quickest: rates[len(rates)-1], least: rates[0]}
	order, least = w.search()
	for low, high := 1, len(rates)-1; least > 0 && low <= high; {
		mid := (low + high) / 2
		w.least = rates[mid]
		if found, slowest := w.search(); slowest >= w.least {
			order, least, low = found, slowest, mid+1
		} else {
			high = mid - 1
		}
	}
	if start < 0 {
		first := slices.Index(order, 0)
		order = slices.Concat(order[first:g.n], order[:first])
		if order[1] > order[g.n-1] {
			slices.Reverse(order[1:])
		}
	}
	return order, least
}

// walker looks for an order of ranks over links of at least some rate.
type walker struct {
	g        *net
	start    int // -1: any, and the first rank of an order stands at its end again
	least    float64
	quickest float64
}

// price is what the step from u to v costs: a missing link more than all others
// together.
func (w *walker) price(u, v int) float64 {
	if rate := w.g.at(u, v); rate >= w.least {
		return w.quickest - rate
	}
	return float64(w.g.n) * w.quickest
}

// search returns the cheapest order of some that begin differently, and the rate of its
// slowest link, 0 where one is missing.
func (w *walker) search() (best []int, slowest float64) {
	least := math.Inf(1)
	for i := range max(1, min(maxWalks, walkWork/(w.g.n*w.g.n))) {
		start, skip := w.start, i
		if start < 0 {
			start, skip = i%w.g.n, i/w.g.n
		}
		order := w.grow(start, skip)
		w.exchange(order)
		cost, rate := 0.0, math.Inf(1)
		for i, v := range order[1:] {
			cost, rate = cost+w.price(order[i], v), min(rate, w.g.at(order[i], v))
		}
		if cost < least {
			best, least, slowest = order, cost, rate
		}
		if least == 0 {
			break
		}
	}
	return best, slowest
}

// grow goes from rank to rank over the quickest link, of equals to where the
// fewest ranks are left to go on to, and without a link to such a rank. The
// digits of skip say how many better ones the first steps pass over.
func (w *walker) grow(start, skip int) []int {
	order := []int{start}
	inside := make([]bool, w.g.n)
	inside[start] = true
	free := make([]int, w.g.n) // by rank: its neighbours outside
	count := func(v, by int) {
		for _, u := range w.g.near[v] {
			if w.g.at(v, u) >= w.least {
				free[u] += by
			}
		}
	}
	for v := range w.g.n {
		if v != start {
			count(v, 1)
		}
	}
	for len(order) < w.g.n {
		u := order[len(order)-1]
		rate := func(v int) float64 { // of the link to v, 0 for one that is too slow
			if r := w.g.at(u, v); r >= w.least {
				return r
			}
			return 0
		}
		next := slices.DeleteFunc(slices.Clone(w.g.near[u]), func(v int) bool { return inside[v] || rate(v) == 0 })
		if len(next) == 0 {
			next = slices.DeleteFunc(sequence(w.g.n), func(v int) bool { return inside[v] })
		}
		better := func(x, y int) int { return cmp.Or(cmp.Compare(rate(y), rate(x)), free[x]-free[y], x-y) }
		v := slices.MinFunc(next, better)
		if skip > 0 {
			slices.SortFunc(next, better)
			v = next[skip%len(next)]
			skip /= len(next)
		}
		order, inside[v] = append(order, v), true
		count(v, -1)
	}
	if w.start < 0 {
		order = append(order, start)
	}
	return order
}

// exchange turns round parts of an order while that lowers its cost: two links
// are opened, and their ends joined the other way (2-opt).
func (w *walker) exchange(order []int) {
	for better, pass := true, 0; better && pass < maxPasses; pass++ {
		better = false
		for i := 1; i < w.g.n; i++ {
			for j := i + 1; j < w.g.n; j++ {
				a, b, c := order[i-1], order[i], order[j]
				gain := w.price(a, b) - w.price(a, c)
				if j+1 < len(order) {
					gain += w.price(c, order[j+1]) - w.price(b, order[j+1])
				}
				if gain > 1e-9*w.quickest {
					slices.Reverse(order[i : j+1])
					better = true
				}
			}
		}
	}
}
