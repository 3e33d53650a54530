package tree

import (
	"math/rand/v2"
	"slices"
)

// The work that turnedWalk spends on one graph: tries from new random choices,
// and turns of the path per rank in each.
const (
	walkTries = 8
	walkTurns = 40
)

// turnedWalk looks for an order over links of at least some rate: a path grows
// from the start, to neighbours that have few unvisited ones themselves and
// over quick links. Where it is stuck, a part of it is turned round, so that it
// ends elsewhere and can go on (Posa, "Hamiltonian circuits in random graphs",
// 1976).
func turnedWalk(g *net, start int, closed bool, least float64) []int {
	near := make([][]int, g.n)
	for v, list := range g.near {
		for _, e := range list {
			if e.GBytesPerSecond >= least {
				near[v] = append(near[v], e.Rank)
			}
		}
		if len(near[v]) == 0 || closed && len(near[v]) == 1 {
			return nil
		}
	}
	for try := range walkTries {
		w := newTurned(g, near, start, rand.New(rand.NewPCG(5, uint64(try))))
		if w.run(closed) {
			return w.path
		}
	}
	return nil
}

// turned is a path that grows and turns.
type turned struct {
	g      *net
	near   [][]int
	path   []int
	place  []int // by rank: its index in path, -1 outside
	free   []int // by rank: its neighbours outside
	random *rand.Rand
}

func newTurned(g *net, near [][]int, start int, random *rand.Rand) *turned {
	w := &turned{g: g, near: near, place: make([]int, g.n), free: make([]int, g.n), random: random}
	for v := range w.place {
		w.place[v] = -1
		w.free[v] = len(near[v])
	}
	w.add(start)
	return w
}

func (w *turned) add(v int) {
	w.place[v] = len(w.path)
	w.path = append(w.path, v)
	for _, u := range w.near[v] {
		w.free[u]--
	}
}

func (w *turned) run(closed bool) bool {
	turns := walkTurns * w.g.n
	for {
		end := w.path[len(w.path)-1]
		if v := w.next(end); v >= 0 {
			w.add(v)
			continue
		}
		if len(w.path) == w.g.n && (!closed || slices.Contains(w.near[end], w.path[0])) {
			return true
		}
		if turns--; turns < 0 || !w.turn(end) {
			return false
		}
	}
}

// next returns the neighbour that the path goes on to, -1 without one: over the
// quickest link, then to where the fewest are free.
func (w *turned) next(end int) int {
	best := -1
	for _, v := range w.near[end] {
		if w.place[v] >= 0 {
			continue
		}
		if best < 0 {
			best = v
			continue
		}
		a, b := w.g.at(end, v), w.g.at(end, best)
		if a > b || a == b && w.free[v] < w.free[best] {
			best = v
		}
	}
	return best
}

// turn links the end to a rank of the path and turns round what lies behind
// that rank, so that its former successor is the end.
func (w *turned) turn(end int) bool {
	var choice []int
	for _, v := range w.near[end] {
		if i := w.place[v]; i >= 0 && i < len(w.path)-2 {
			choice = append(choice, i)
		}
	}
	if len(choice) == 0 {
		return false
	}
	i := choice[w.random.IntN(len(choice))] + 1
	slices.Reverse(w.path[i:])
	for ; i < len(w.path); i++ {
		w.place[w.path[i]] = i
	}
	return true
}

// maxOpened is the number of ranks up to which links are exchanged.
const maxOpened = 1 << 11

// opened turns round parts of an order while that raises its total rate: two
// links are opened and their ends joined the other way. All links stay at least
// so quick.
func opened(g *net, order []int, closed bool, least float64) []int {
	n := g.n
	if n > maxOpened {
		return order
	}
	for better, pass := true, 0; better && pass < maxPasses; pass++ {
		better = false
		for i := 0; i < n-1; i++ {
			for j := i + 2; j < n; j++ {
				last := j == n-1
				if last && closed && i == 0 {
					continue // the two links share rank order[0]
				}
				gain := joinGain(g, order, i, j, last && !closed, least)
				if gain > 1e-9 {
					slices.Reverse(order[i+1 : j+1])
					better = true
				}
			}
		}
	}
	return order
}

// joinGain is what turning round order[i+1..j] gains; open says that nothing
// follows order[j].
func joinGain(g *net, order []int, i, j int, open bool, least float64) float64 {
	a, b, c := order[i], order[i+1], order[j]
	ac := g.at(a, c)
	if ac < least {
		return none
	}
	gain := ac - g.at(a, b)
	if open {
		return gain
	}
	d := order[(j+1)%g.n]
	bd := g.at(b, d)
	if bd < least {
		return none
	}
	return gain + bd - g.at(c, d)
}
