package tree

import (
	"math/bits"
	"slices"
)

// walk returns an order of all ranks in which each has a link to the next: a
// path from the given start, or with start -1 a ring, beginning with rank 0.
// The slowest link is as quick as possible, then the total rate as large: both
// exactly up to MaxExact ranks. It returns nil when there is no such order or,
// above MaxExact, when it finds none.
func walk(g *net, start int) []int {
	closed := start < 0
	start = max(start, 0)
	if g.n <= 2 {
		return map[int][]int{1: {0}, 2: {start, 1 - start}}[g.n]
	}
	find, improve := exactWalk, heaviestWalk
	if g.n > MaxExact {
		find, improve = turnedWalk, opened
	}
	rates := g.rates()
	var best []int
	least := 0.0
	for low, high := 0, len(rates)-1; low <= high; {
		mid := (low + high) / 2
		order := find(g, start, closed, rates[mid])
		if order == nil {
			high = mid - 1
			continue
		}
		best, least = order, rates[mid]
		low = mid + 1
	}
	if best == nil {
		return nil
	}
	best = improve(g, best, closed, least)
	if closed && best[1] > best[g.n-1] {
		slices.Reverse(best[1:])
	}
	return best
}

// rates returns the different rates of the links, rising.
func (g *net) rates() []float64 {
	var list []float64
	for _, near := range g.near {
		for _, e := range near {
			list = append(list, e.GBytesPerSecond)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// masks returns every rank's neighbours over links of at least some rate.
func masks(g *net, least float64) []uint32 {
	near := make([]uint32, g.n)
	for v, list := range g.near {
		for _, e := range list {
			if e.GBytesPerSecond >= least {
				near[v] |= 1 << e.Rank
			}
		}
	}
	return near
}

// exactWalk finds an order over links of at least some rate, if there is one:
// for every set of ranks that holds the start it keeps the ranks in which a
// path from the start over exactly the set can end.
func exactWalk(g *net, start int, closed bool, least float64) []int {
	near := masks(g, least)
	full := uint32(1)<<g.n - 1
	ends := make([]uint32, full+1)
	ends[1<<start] = 1 << start
	for set := uint32(1); set < full; set++ {
		for rest := ends[set]; rest > 0; rest &= rest - 1 {
			u := bits.TrailingZeros32(rest)
			for next := near[u] &^ set; next > 0; next &= next - 1 {
				bit := next & -next
				ends[set|bit] |= bit
			}
		}
	}
	last := ends[full]
	if closed {
		last &= near[start]
	}
	if last == 0 {
		return nil
	}
	order := make([]int, g.n)
	set, can := full, last
	for i := g.n - 1; i >= 0; i-- {
		v := bits.TrailingZeros32(can)
		order[i] = v
		set &^= 1 << v
		can = ends[set] & near[v]
	}
	return order
}

// heaviestWalk returns the order of the largest total rate over links of at
// least some rate; the one it is given shows that there is one.
func heaviestWalk(g *net, order []int, closed bool, least float64) []int {
	n, start := g.n, order[0]
	near := masks(g, least)
	full := uint32(1)<<n - 1
	most := make([]float64, (int(full)+1)*n) // by set and end
	for i := range most {
		most[i] = none
	}
	most[1<<start*n+start] = 0
	for set := uint32(1); set < full; set++ {
		row := most[int(set)*n:][:n]
		for u, sum := range row {
			if sum == none {
				continue
			}
			for next := near[u] &^ set; next > 0; next &= next - 1 {
				v := bits.TrailingZeros32(next)
				cell := &most[int(set|1<<v)*n+v]
				*cell = max(*cell, sum+g.at(u, v))
			}
		}
	}
	last, best := -1, none
	for v, sum := range most[int(full)*n:] {
		if closed && near[start]>>v&1 == 0 {
			continue
		}
		if closed {
			sum += g.at(v, start)
		}
		if sum > best {
			last, best = v, sum
		}
	}
	return traced(g, most, near, start, last)
}

// traced follows the sums of heaviestWalk back from the last rank.
func traced(g *net, most []float64, near []uint32, start, last int) []int {
	n := g.n
	order := make([]int, n)
	set := uint32(1)<<n - 1
	v := last
	for i := n - 1; i > 0; i-- {
		order[i] = v
		sum := most[int(set)*n+v]
		set &^= 1 << v
		for rest := set & near[v]; rest > 0; rest &= rest - 1 {
			u := bits.TrailingZeros32(rest)
			if before := most[int(set)*n+u]; before != none && before+g.at(u, v) == sum {
				v = u
				break
			}
		}
	}
	order[0] = start
	return order
}
