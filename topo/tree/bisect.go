package tree

// maxBisections bounds the passes over one cluster; few need more than four.
const maxBisections = 10

// cluster is a set of ranks and, for two ranks and more, its two halves.
type cluster struct {
	ranks  []int
	halves [2]*cluster
}

// halve cuts ranks in halves that differ by one rank at most, and the halves
// again. It takes the order of ranks as the start and changes it.
func halve(g *net, ranks []int) *cluster {
	c := &cluster{ranks: ranks}
	if len(ranks) == 1 {
		return c
	}
	b := newBisection(g, ranks)
	for pass := 0; len(ranks) > 2 && pass < maxBisections && b.pass(); pass++ {
	}
	mid := len(ranks) / 2
	c.halves = [2]*cluster{halve(g, ranks[:mid:mid]), halve(g, ranks[mid:])}
	return c
}

// bisection cuts ranks in the ones before mid and the ones from mid on.
type bisection struct {
	g      *net
	ranks  []int
	mid    int
	pull   []float64 // by position: rates to the other half less rates to its own
	locked []bool    // by position: has moved in this pass
	swaps  [][2]int  // positions, in the order of this pass
}

func newBisection(g *net, ranks []int) *bisection {
	n := len(ranks)
	return &bisection{g: g, ranks: ranks, mid: n / 2, pull: make([]float64, n), locked: make([]bool, n)}
}

// pass exchanges pairs across the cut, each rank once: always the pair that
// gains most, or loses least, so that it climbs over hills. Then it takes back
// all exchanges behind the point where the cut was lightest. It reports whether
// the cut is lighter than before.
func (b *bisection) pass() bool {
	b.start()
	sum, best, keep := 0.0, 0.0, 0
	for range min(b.mid, len(b.ranks)-b.mid) {
		i, j, gain := b.choose()
		sum += gain
		b.swap(i, j)
		if sum > best+float64(1e-9*(1+best)) {
			best, keep = sum, len(b.swaps)
		}
	}
	for _, s := range b.swaps[keep:] {
		b.ranks[s[0]], b.ranks[s[1]] = b.ranks[s[1]], b.ranks[s[0]]
	}
	return keep > 0
}

// start computes the pulls and unlocks all positions.
func (b *bisection) start() {
	clear(b.pull)
	clear(b.locked)
	b.swaps = b.swaps[:0]
	for i, u := range b.ranks {
		for j, v := range b.ranks[:i] {
			w := b.g.at(u, v)
			if (i < b.mid) == (j < b.mid) {
				w = -w
			}
			b.pull[i] += w
			b.pull[j] += w
		}
	}
}

// choose returns the unlocked pair whose exchange gains most.
func (b *bisection) choose() (i, j int, gain float64) {
	strongest := none // pull from behind the cut
	for y := b.mid; y < len(b.ranks); y++ {
		if !b.locked[y] {
			strongest = max(strongest, b.pull[y])
		}
	}
	gain = none
	for x := range b.mid {
		if b.locked[x] || b.pull[x]+strongest <= gain {
			continue
		}
		for y := b.mid; y < len(b.ranks); y++ {
			if b.locked[y] || b.pull[x]+b.pull[y] <= gain {
				continue
			}
			if d := b.pull[x] + b.pull[y] - 2*b.g.at(b.ranks[x], b.ranks[y]); d > gain {
				i, j, gain = x, y, d
			}
		}
	}
	return i, j, gain
}

// swap exchanges positions i and j, locks them and corrects the pulls of the
// others: i is before the cut.
func (b *bisection) swap(i, j int) {
	b.locked[i], b.locked[j] = true, true
	u, v := b.ranks[i], b.ranks[j] // u leaves the first half, v enters it
	for k, r := range b.ranks {
		if b.locked[k] {
			continue
		}
		d := 2 * (b.g.at(r, u) - b.g.at(r, v))
		if k >= b.mid {
			d = -d
		}
		b.pull[k] += d
	}
	b.ranks[i], b.ranks[j] = v, u
	b.swaps = append(b.swaps, [2]int{i, j})
}
