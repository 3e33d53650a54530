package tree

import (
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

// arcs is the directed flows of a graph.
type arcs struct {
	*topo.Flows
	g    *topo.Graph
	once []float64 // by row: what each ring takes of it at least
}

func newArcs(g *topo.Graph) *arcs {
	w := &arcs{Flows: g.Flows(true), g: g}
	w.once = make([]float64, len(w.Rows))
	for _, t := range slices.Concat(w.Takes...) {
		if least := w.once[t.Row]; w.Rows[t.Row].Port >= 0 && (least == 0 || t.Load < least) {
			w.once[t.Row] = t.Load
		}
	}
	return w
}

// rate is the rate that an arc has of what is left by row.
func (w *arcs) rate(id int32, left []float64) float64 {
	least := math.Inf(1)
	for _, t := range w.Takes[id] {
		rate := left[t.Row]
		if t.Load != 1 { // a division takes long
			rate /= t.Load
		}
		least = min(least, rate)
	}
	return least
}

// whole is the number of rings of a rate of 1 that an arc can carry.
func (w *arcs) whole(id int32, left []float64) int { return int(w.rate(id, left) + smallShare) }

// limit is a sum of rates that no rings exceed in what is left: each of them visits all ranks, and crosses all ports.
func (w *arcs) limit(left []float64) float64 {
	least, in := math.Inf(1), make([]float64, w.g.Ranks)
	for _, list := range w.Near {
		out := 0.0
		for _, a := range list {
			rate := w.rate(a.ID, left)
			out += rate
			in[a.To] += rate
		}
		least = min(least, out)
	}
	for r, load := range w.once {
		if load > 0 {
			least = min(least, left[r]/load)
		}
	}
	return min(least, slices.Min(in))
}

// take takes a rate for a ring of what is left, or the most there is, and returns it.
func (w *arcs) take(order []int, rate float64, left []float64) float64 {
	uses := make([]float64, len(left))
	for i, v := range order {
		next := order[(i+1)%len(order)]
		k, _ := slices.BinarySearchFunc(w.Near[v], next, func(a topo.Arc, to int) int { return a.To - to })
		for _, t := range w.Takes[w.Near[v][k].ID] {
			uses[t.Row] += t.Load
		}
	}
	for r, n := range uses {
		if n > 0 {
			rate = min(rate, left[r]/n)
		}
	}
	for r, n := range uses {
		if left[r] -= float64(rate * n); left[r] < smallShare*w.Caps[r] {
			left[r] = 0
		}
	}
	return rate
}

// fill returns a set of rings of one speed, those of them quicker that links and ports let be, and of rings that walk
// finds in what is left, both ways round, until there are most of them. It gives up where no more than sum is possible.
func (w *arcs) fill(orders [][]int, speed float64, most int, sum float64) *ringSet {
	s, left := &ringSet{}, slices.Clone(w.Caps)
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
			if l.GBytesPerSecond = min(w.rate(int32(2*i), left), w.rate(int32(2*i+1), left)); l.GBytesPerSecond > 0 {
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
	best, limit, sum := w.fill(nil, 0, most, 0), w.limit(w.Caps), 0.0
	x := &search{arcs: w, work: ringWork}
	for _, list := range w.Near {
		x.patience += pairWork * len(list) * len(list)
	}
	speeds := numbers.Below(min(most, maxEqual)) // by their parts of the limit, less one; without those that are done
	for turn := 0; len(speeds) > 0; turn++ {
		speeds = slices.DeleteFunc(speeds, func(k int) (done bool) {
			speed := limit / float64(k+1)
			x.goal = k + 1
			for i := 0; i < orders && !done; i++ {
				if x.work <= 0 || best.sum >= limit*(1-smallShare) {
					return true
				}
				done = x.try(speed, orders*turn+i)
				if s := w.fill(x.found, speed, 0, 0); s.sum > sum*(1+smallShare) {
					sum = s.sum
					if s = w.fill(x.found, speed, most, best.sum); s.better(best) {
						best = s
					}
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
	turn      int // changes the order of arcs
	work, end int // what is left in all, and where this turn ends
	patience  int // the work without another ring after which it ends
	path      []int
	seen      []int     // by rank: the rings that have come to it; rank 0 begins the next one
	free      []float64 // by row: what is left, in rings
	found     [][]int   // the most rings of this turn so far
	goal      int       // the number of rings that all capacity makes
}

// try sets found to rings of a speed, and reports whether there are no more.
func (x *search) try(speed float64, turn int) (done bool) {
	x.turn, x.path, x.seen, x.found = turn, []int{0}, make([]int, x.g.Ranks), nil
	x.seen[0] = 1
	x.free = slices.Clone(x.Caps)
	for r := range x.free {
		x.free[r] /= speed
	}
	x.end = x.work - x.patience
	x.extend()
	return x.work >= x.end
}

// extend goes on from the end of the path in every way, and reports whether the turn is over.
func (x *search) extend() bool {
	at, n := len(x.path)-1, x.g.Ranks
	if rings := at / n; at%n == 0 {
		if rings > len(x.found) {
			x.found, x.end = slices.Collect(slices.Chunk(slices.Clone(x.path[:at]), n)), x.work-x.patience
		}
		x.work -= len(x.Takes)
		if more := int(x.limit(x.free) + smallShare); rings+more <= len(x.found) {
			return rings == x.goal
		}
	}
	for _, a := range x.steps() {
		if x.work < x.end {
			return true
		}
		x.path = append(x.path, a.To)
		x.count(a, 1)
		if x.extend() {
			return true
		}
		x.count(a, -1)
		x.path = x.path[:at+1]
	}
	return false
}

// count counts a ring over an arc, or counts it no longer.
func (x *search) count(a topo.Arc, by int) {
	for _, t := range x.Takes[a.ID] {
		x.free[t.Row] -= float64(t.Load * float64(by))
	}
	x.seen[a.To] += by
}

// steps returns the arcs that lead on from the end of the path, first those that are free for the most rings, and of
// them those to ranks that will be hard to reach. There is none where the ring can no longer come to all ranks.
func (x *search) steps() (list []topo.Arc) {
	at, n := len(x.path)-1, x.g.Ranks
	from, rings, last := x.path[at], at/n, at%n == n-1
	if !last && !x.reaches(from, rings) {
		return nil
	}
	order := make([]int, n) // by rank
	for _, a := range x.Near[from] {
		free := x.whole(a.ID, x.free)
		if free == 0 || last != (a.To == 0) || !last && x.seen[a.To] > rings {
			continue
		}
		doors := 0 // the other arcs on which the ring could come there later
		for _, b := range x.Near[a.To] {
			if x.seen[b.To] == rings && x.whole(b.ID^1, x.free) > 0 {
				doors++
			}
		}
		x.work -= len(x.Near[a.To])
		first := [orders]int{doors - free<<16, -free, doors<<16 - free}[x.turn%orders]
		order[a.To] = first*n + (a.To+x.turn*(from+1))%n
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b topo.Arc) int { return order[a.To] - order[b.To] })
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
		for _, a := range x.Near[queue[i]] {
			if met[a.To] == rings && x.whole(a.ID, x.free) > 0 {
				met[a.To]++
				queue = append(queue, a.To)
			}
		}
		x.work -= len(x.Near[queue[i]])
	}
	return !slices.Contains(met, rings)
}
