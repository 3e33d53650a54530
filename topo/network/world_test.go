package network

import (
	"math"
	"math/rand/v2"
	"slices"
)

// world is a network as it is: flows take turns on resources, which are shared
// evenly (max-min), as TCP about does.
type world struct {
	hosts    int
	capacity []float64
	way      map[[2]int][]int // resources of a flow
	us       map[[2]int]float64
}

func newWorld(hosts int) *world {
	return &world{hosts: hosts, way: make(map[[2]int][]int), us: make(map[[2]int]float64)}
}

func (w *world) resource(rate float64) int {
	w.capacity = append(w.capacity, rate)
	return len(w.capacity) - 1
}

// cards is a switch with a card per host, of out and in.
func cards(rates ...[2]float64) *world {
	w := newWorld(len(rates))
	var out, in []int
	for _, r := range rates {
		out, in = append(out, w.resource(r[0])), append(in, w.resource(r[1]))
	}
	for a := range rates {
		for b := range rates {
			if a != b {
				w.way[[2]int{a, b}] = []int{out[a], in[b]}
				w.us[[2]int{a, b}] = 30
			}
		}
	}
	return w
}

// both makes cards that are as quick in as out.
func both(rates ...float64) *world {
	var list [][2]float64
	for _, r := range rates {
		list = append(list, [2]float64{r, r})
	}
	return cards(list...)
}

// mesh has a link of its own for every rate that is not 0; other pairs go over
// the fewest hops.
func mesh(rate [][]float64) *world {
	n := len(rate)
	w := newWorld(n)
	link := make(map[[2]int]int)
	for a := range n {
		for b := range n {
			if a != b && rate[a][b] > 0 {
				link[[2]int{a, b}] = w.resource(rate[a][b])
			}
		}
	}
	for a := range n {
		before := make([]int, n)
		for i := range before {
			before[i] = -1
		}
		before[a] = a
		for queue := []int{a}; len(queue) > 0; queue = queue[1:] {
			for v := range n {
				if _, ok := link[[2]int{queue[0], v}]; ok && before[v] < 0 {
					before[v] = queue[0]
					queue = append(queue, v)
				}
			}
		}
		for b := range n {
			if a == b {
				continue
			}
			for v := b; v != a; v = before[v] {
				w.way[[2]int{a, b}] = append(w.way[[2]int{a, b}], link[[2]int{before[v], v}])
				w.us[[2]int{a, b}] += 30
			}
		}
	}
	return w
}

// rates returns the rates of flows that are under way at once.
func (w *world) rates(flows [][2]int) []float64 {
	left := slices.Clone(w.capacity)
	out := make([]float64, len(flows))
	fixed := make([]bool, len(flows))
	for range flows {
		users := make([]int, len(left))
		for i, f := range flows {
			for _, r := range w.way[f] {
				if !fixed[i] {
					users[r]++
				}
			}
		}
		tight, share := -1, math.Inf(1)
		for r, n := range users {
			if n > 0 && left[r]/float64(n) < share {
				tight, share = r, left[r]/float64(n)
			}
		}
		for i, f := range flows {
			if !fixed[i] && slices.Contains(w.way[f], tight) {
				fixed[i], out[i] = true, share
				for _, r := range w.way[f] {
					left[r] -= share
				}
			}
		}
	}
	return out
}

// find measures w with the given noise, as a part of every value.
func (w *world) find(e Effort, noise float64, seed uint64) *Findings {
	random := rand.New(rand.NewPCG(seed, 0))
	disturb := func(v float64) float64 { return v * (1 + noise*(2*random.Float64()-1)) }
	f := &Findings{}
	for _, t := range Turns(w.hosts, e) {
		if t.Trips {
			for _, p := range t.Flows {
				f.Trips = append(f.Trips, Trip{p[0], p[1], disturb(w.us[p])})
			}
			continue
		}
		for i, rate := range w.rates(t.Flows) {
			flow := Flow{Turn: t.Number, Src: t.Flows[i][0], Dst: t.Flows[i][1], Bytes: 1}
			rate = disturb(rate)
			for range 8 {
				flow.Slices = append(flow.Slices, disturb(rate))
			}
			f.Flows = append(f.Flows, flow)
		}
	}
	random.Shuffle(len(f.Flows), func(i, k int) { f.Flows[i], f.Flows[k] = f.Flows[k], f.Flows[i] })
	return f
}

// disturb makes some flows much slower, as they are on hosts that have other
// things to do, and all of them unsteady.
func disturb(f *Findings, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	for i := range f.Flows {
		slow := 1.0
		if random.IntN(8) == 0 {
			slow = 0.6 * random.Float64()
		}
		for k := range f.Flows[i].Slices {
			f.Flows[i].Slices[k] *= slow * (0.4 + 0.6*random.Float64())
		}
	}
}
