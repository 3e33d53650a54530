package tree

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// Rings returns directed rings that can be used at the same time, NCCL's channels: each as the path from rank 0 to its
// last rank, which has a link to the first. A ring takes its rate of one direction of its links, each of which has the
// link's full rate, and goes out of a port and back as often as it crosses it. Two ranks make a ring of their one link.
// The rate of one rank's ring is 0.
//
// The sum of the rates is large, but not always the largest. First come rings of quick links, both ways round, one
// after the other in what those before leave. Where ranks and ports could carry more, it searches with backtracking for
// k rings of a k-th of that, as NCCL does. Of sets with the same sum the one of the fewest rings is returned.
func Rings(g *topo.Graph, most int) (paths []topo.Tree, rates []float64, err error) {
	if g.Ranks == 1 {
		return []topo.Tree{along([]int{0})}, []float64{0}, nil
	}
	best := newArcs(g).rings(most)
	if len(best.orders) == 0 {
		return nil, nil, fmt.Errorf("tree: found no ring over the graph's links that visits all %d ranks", g.Ranks)
	}
	for _, order := range best.orders {
		paths = append(paths, along(order))
	}
	return paths, best.rates, nil
}

// ringSet is a set of directed rings, each as the order of its ranks, and their rates.
type ringSet struct {
	orders [][]int
	rates  []float64
	sum    float64
}

// smallShare is a part of a rate that counts as none.
const smallShare = 1e-9

// better reports whether a set has no smaller sum of rates than another, and a larger one or fewer rings. A ring takes
// lanes and steps: one more has to add a hundredth.
func (s *ringSet) better(o *ringSet) bool {
	worth := func(s *ringSet) float64 { return s.sum * float64(100-len(s.orders)) }
	return s.sum >= o.sum*(1-smallShare) && worth(s) > worth(o)*(1+smallShare)
}

// arcs is a graph whose links and ports have two rows each, one for either direction, with their rates as capacities.
// Arc 2i is link i from A to B, and 2i+1 the other direction.
type arcs struct {
	g    *topo.Graph
	near [][]arc   // by rank: the arcs away from it, by the rank to which they lead
	rows [][]int   // by arc: those that a ring takes its rate of
	caps []float64 // by row
}

type arc struct{ to, id int }

func newArcs(g *topo.Graph) *arcs {
	w := &arcs{g: g, near: make([][]arc, g.Ranks)}
	ports, crossed := 2*len(g.Links), g.Crossed()
	for i, l := range g.Links {
		there, back := []int{2 * i}, []int{2*i + 1}
		for _, p := range crossed[i] {
			out, in := ports+2*p, ports+2*p+1
			if slices.Contains(g.Ports[p].Ranks, l.B) {
				out, in = in, out
			}
			there, back = append(there, out), append(back, in)
		}
		w.near[l.A], w.near[l.B] = append(w.near[l.A], arc{l.B, 2 * i}), append(w.near[l.B], arc{l.A, 2*i + 1})
		w.rows, w.caps = append(w.rows, there, back), append(w.caps, l.GBytesPerSecond, l.GBytesPerSecond)
	}
	for _, p := range g.Ports {
		w.caps = append(w.caps, p.GBytesPerSecond, p.GBytesPerSecond)
	}
	for _, list := range w.near {
		slices.SortFunc(list, func(a, b arc) int { return a.to - b.to })
	}
	return w
}

// rate is the rate that an arc has of what is left by row.
func (w *arcs) rate(id int, left []float64) float64 {
	least := math.Inf(1)
	for _, r := range w.rows[id] {
		least = min(least, left[r])
	}
	return least
}

// limit is a sum of rates that no rings exceed in what is left: each of them visits all ranks, and crosses all ports.
func (w *arcs) limit(left []float64) float64 {
	least, in := math.Inf(1), make([]float64, w.g.Ranks)
	for _, list := range w.near {
		out := 0.0
		for _, a := range list {
			rate := w.rate(a.id, left)
			out += rate
			in[a.to] += rate
		}
		least = min(least, out)
	}
	for p, port := range w.g.Ports {
		if out := 2 * (len(w.g.Links) + p); len(port.Ranks) < w.g.Ranks {
			least = min(least, left[out], left[out+1])
		}
	}
	return min(least, slices.Min(in))
}

// take takes a rate for a ring of what is left, or the most there is, and returns it.
func (w *arcs) take(order []int, rate float64, left []float64) float64 {
	uses := make([]float64, len(left))
	for i, v := range order {
		next := order[(i+1)%len(order)]
		k, _ := slices.BinarySearchFunc(w.near[v], next, func(a arc, to int) int { return a.to - to })
		for _, r := range w.rows[w.near[v][k].id] {
			uses[r]++
		}
	}
	for r, n := range uses {
		if n > 0 {
			rate = min(rate, left[r]/n)
		}
	}
	for r, n := range uses {
		if left[r] -= float64(rate * n); left[r] < smallShare*w.caps[r] {
			left[r] = 0
		}
	}
	return rate
}

// fill returns a set of rings of one speed, those of them quicker that links and ports let be, and of rings that walk
// finds in what is left, both ways round, until there are most of them. It gives up where no more than sum is possible.
func (w *arcs) fill(orders [][]int, speed float64, most int, sum float64) *ringSet {
	s, left := &ringSet{}, slices.Clone(w.caps)
	use := func(order []int, rate float64) {
		if rate = w.take(order, rate, left); rate == 0 {
			return
		}
		i := slices.IndexFunc(s.orders, func(o []int) bool { return slices.Equal(o, order) })
		if i < 0 {
			i = len(s.orders)
			s.orders, s.rates = append(s.orders, order), append(s.rates, 0)
		}
		s.rates[i] += rate
		s.sum += rate
	}
	for _, rate := range []float64{speed, math.Inf(1)} {
		for _, order := range orders {
			use(order, rate)
		}
	}
	for len(s.orders) < most && s.sum+w.limit(left) > sum {
		rest := topo.Graph{Ranks: w.g.Ranks}
		for i, l := range w.g.Links {
			if l.GBytesPerSecond = min(w.rate(2*i, left), w.rate(2*i+1, left)); l.GBytesPerSecond > 0 {
				rest.Links = append(rest.Links, l)
			}
		}
		order, least := walk(newNet(&rest), -1)
		if least == 0 {
			break
		}
		back := slices.Clone(order)
		slices.Reverse(back[1:])
		use(order, math.Inf(1))
		if len(s.orders) < most {
			use(back, math.Inf(1))
		}
	}
	return s
}

// The numbers of rings of one speed that are searched for, and the arcs that are looked at: in all, and without another
// ring in a try, there for each pair of arcs at a rank; and the orders in which steps tries arcs.
const (
	maxEqual = 16
	ringWork = 500_000
	pairWork = 16
	orders   = 3
)

// rings returns rings with a large sum of rates, at most the given number of them.
func (w *arcs) rings(most int) *ringSet {
	best, limit, sum := w.fill(nil, 0, most, 0), w.limit(w.caps), 0.0
	x := &search{arcs: w, most: most, work: ringWork}
	speeds := numbers.Below(min(most, maxEqual)) // by their parts of the limit, less one; without those that are done
	for turn := 0; len(speeds) > 0; turn++ {
		speeds = slices.DeleteFunc(speeds, func(k int) bool {
			if x.work <= 0 || best.sum >= limit*(1-smallShare) {
				return true
			}
			speed := limit / float64(k+1)
			found, done := x.try(speed, turn)
			if s := w.fill(found, speed, 0, 0); s.sum > sum*(1+smallShare) {
				sum = s.sum
				if s = w.fill(found, speed, most, best.sum); s.better(best) {
					best = s
				}
			}
			return done
		})
	}
	return best
}

// search looks for rings of one speed. Its rings are one path: rank 0, the rest of a ring, rank 0, the rest of another.
type search struct {
	*arcs
	most      int
	turn      int // changes the order of arcs
	work, end int // what is left in all, and where this turn ends
	path      []int
	seen      []int     // by rank: the rings that have come to it; rank 0 begins the next one
	free      []float64 // by row: the further rings that it can carry
	found     [][]int   // the most rings of this turn so far
	goal      int       // the most that there can be
	cut       bool      // the turn ended for its work
}

// try returns rings of a speed, and whether there are no more. It searches in every order, in a variant of the turn.
func (x *search) try(speed float64, turn int) (found [][]int, done bool) {
	x.free = nil
	for _, c := range x.caps {
		x.free = append(x.free, math.Floor(c/speed+smallShare))
	}
	x.goal = int(min(float64(x.most), x.limit(x.free)))
	for i := 0; i < orders && !done; i++ {
		x.turn, x.path, x.seen, x.found, x.cut = orders*turn+i, []int{0}, make([]int, x.g.Ranks), nil, false
		x.seen[0] = 1
		x.renew()
		x.extend()
		if len(x.found) > len(found) {
			found = x.found
		}
		done = !x.cut
	}
	return found, done
}

// renew gives the turn all of its work again.
func (x *search) renew() {
	x.end = x.work
	for _, list := range x.near {
		x.end -= pairWork * len(list) * len(list)
	}
}

// extend goes on from the end of the path in every way, and reports whether the turn is over.
func (x *search) extend() bool {
	at, n := len(x.path)-1, x.g.Ranks
	if rings := at / n; at%n == 0 {
		if rings > len(x.found) {
			x.found = slices.Collect(slices.Chunk(slices.Clone(x.path[:at]), n))
			x.renew()
		}
		x.work -= len(x.rows)
		if len(x.found) == x.goal || rings+int(x.limit(x.free)) <= len(x.found) {
			return len(x.found) == x.goal
		}
	}
	for _, s := range x.steps() {
		if x.cut = x.work < x.end; x.cut {
			return true
		}
		x.step(s.arc, 1)
		x.path = append(x.path, s.to)
		done := x.extend()
		x.path = x.path[:at+1]
		x.step(s.arc, -1)
		if done {
			return true
		}
	}
	return false
}

// step counts a ring over an arc, or counts it no longer.
func (x *search) step(a arc, count int) {
	for _, r := range x.rows[a.id] {
		x.free[r] -= float64(count)
	}
	x.seen[a.to] += count
}

// step is an arc on which the path can go on.
type step struct {
	arc
	free  float64 // the rings that the arc can carry
	doors int     // the other arcs on which the ring could come to its end later
}

// steps returns the arcs that lead on from the end of the path, first those that are free for the most rings, or those
// to ranks that will be hard to reach. There is none where the ring can no longer come to all ranks.
func (x *search) steps() (list []step) {
	at, n := len(x.path)-1, x.g.Ranks
	from, rings, last := x.path[at], at/n, at%n == n-1
	if !last && !x.reaches(from, rings) {
		return nil
	}
	for _, a := range x.near[from] {
		s := step{arc: a, free: x.rate(a.id, x.free)}
		if s.free == 0 || last != (a.to == 0) || !last && x.seen[a.to] > rings {
			continue
		}
		for _, b := range x.near[a.to] {
			if x.seen[b.to] == rings && x.rate(b.id^1, x.free) > 0 {
				s.doors++
			}
		}
		x.work -= len(x.near[a.to])
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b step) int {
		free, doors, turned := cmp.Compare(b.free, a.free), a.doors-b.doors, x.turn*(from+1)
		switch x.turn % orders {
		case 1:
			doors = 0
		case 2:
			free, doors = doors, free
		}
		return cmp.Or(free, doors, (a.to+turned)%n-(b.to+turned)%n)
	})
	return list
}

// reaches reports whether free arcs lead from a rank, over ranks to which the ring has not come, to all of those and
// back to rank 0.
func (x *search) reaches(from, rings int) bool {
	met, queue := slices.Clone(x.seen), []int{from}
	met[0] = rings
	for i := 0; i < len(queue); i++ {
		if i > 0 && queue[i] == 0 {
			continue
		}
		for _, a := range x.near[queue[i]] {
			if met[a.to] == rings && x.rate(a.id, x.free) > 0 {
				met[a.to]++
				queue = append(queue, a.to)
			}
		}
		x.work -= len(x.near[queue[i]])
	}
	return !slices.Contains(met, rings)
}
