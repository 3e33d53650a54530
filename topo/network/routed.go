package network

import (
	"cmp"
	"slices"
)

// mostRouted is the number of hosts up to which pairs without a link of their
// own are looked for: it needs stars with all hosts, and tries combinations.
const (
	mostRouted = 9
	mostTries  = 1 << 14
)

// routed looks for pairs that go over the links of others and marks them; it
// reports whether it found any. They are those without which everything fits:
// what every host sends, and receives, with all at once is the sum of its links
// left, and there is a way over these links that is as wide as the pair.
//
// A set of cards would often fit, too. So it takes a sign that there are none:
// flows that keep their rate among others that lose theirs, where all would have
// had to share. Where the pairs look all the same, as in a ring of five, there
// is no such sign, and ports are what describes them.
func (x *inference) routed(net *Network) bool {
	if x.n < 3 || x.n > mostRouted || !x.unfair() {
		return false
	}
	s := search{inference: x, keep: make([]bool, len(net.Pairs)), bring: make([][2]float64, x.n)}
	for i := range x.stars {
		star := &x.stars[i]
		if x.shared(star) == 0 || len(star.peer) != x.n-1 {
			return false
		}
		s.bring[star.host][star.way] = max(s.bring[star.host][star.way], star.all)
	}
	for i, p := range net.Pairs {
		s.keep[i] = true
		if p.Out == 0 || p.Back == 0 {
			return false
		}
		s.order = append(s.order, i)
	}
	for _, b := range s.bring {
		if b[0] == 0 || b[1] == 0 {
			return false
		}
	}
	// What goes over another host takes longer.
	slices.SortStableFunc(s.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(net.Pairs[b].LatencyUs, net.Pairs[a].LatencyUs), cmp.Compare(net.Pairs[a].GBytesPerSecond, net.Pairs[b].GBytesPerSecond))
	})
	s.pairs = net.Pairs
	if !s.try(0) {
		return false
	}
	for i := range net.Pairs {
		net.Pairs[i].Routed = !s.keep[i]
	}
	return true
}

// unfair reports whether in some stars, more than one, a flow kept its rate
// though a card shared by all of them would have left it much less: each its own
// rate, or the same as the others.
func (x *inference) unfair() bool {
	stars := 0
	for i := range x.stars {
		s := &x.stars[i]
		if x.shared(s) <= x.held() {
			continue
		}
		fair := x.fair(s)
		for k, p := range s.peer {
			if v := x.single(s, p); s.each[k]*x.held() >= v && v > 1.4*fair {
				stars++
				break
			}
		}
	}
	return stars > 1
}

// fair is the rate at most that each flow of a star gets when all share a card
// that carries what they brought.
func (x *inference) fair(s *star) float64 {
	left := s.all
	var rates []float64
	for _, p := range s.peer {
		rates = append(rates, x.single(s, p))
	}
	slices.Sort(rates)
	for i, v := range rates {
		if each := left / float64(len(rates)-i); v >= each {
			return each
		}
		left -= v
	}
	return rates[len(rates)-1]
}

// search tries which pairs have links of their own.
type search struct {
	*inference
	pairs []Pair
	order []int // of pairs: those that are most likely routed first
	keep  []bool
	bring [][2]float64 // of every host: what it sends and receives at once
	tries int
}

// slack is how far a sum of rates may be off.
const slack = 1.2

// try leaves out pairs from order[at] on, until everything fits.
func (s *search) try(at int) bool {
	if s.tries++; s.tries > mostTries {
		return false
	}
	over, under := s.fit()
	if under {
		return false
	}
	if !over {
		return s.ways()
	}
	for k := at; k < len(s.order); k++ {
		s.keep[s.order[k]] = false
		if s.try(k + 1) {
			return true
		}
		s.keep[s.order[k]] = true
	}
	return false
}

// fit tells whether some host's links are together more, or less, than what it
// brought at once.
func (s *search) fit() (over, under bool) {
	sum := make([][2]float64, s.n)
	for i, p := range s.pairs {
		if s.keep[i] {
			sum[p.A][0] += p.Out
			sum[p.A][1] += p.Back
			sum[p.B][0] += p.Back
			sum[p.B][1] += p.Out
		}
	}
	for h, b := range s.bring {
		for way, v := range b {
			over = over || sum[h][way] > slack*v
			under = under || v > slack*sum[h][way]
		}
	}
	return over, under
}

// ways tells whether every pair that is left out can go over the others as
// quickly as it did.
func (s *search) ways() bool {
	for i, p := range s.pairs {
		if !s.keep[i] && slack*s.widest(p.A, p.B) < s.pair(p.A, p.B) {
			return false
		}
	}
	return true
}

// widest is the rate of the widest way from a to b over pairs that are kept.
func (s *search) widest(a, b int) float64 {
	width := make([]float64, s.n)
	done := make([]bool, s.n)
	width[a] = s.bring[a][0] + 1
	for {
		best := -1
		for v := range width {
			if !done[v] && width[v] > 0 && (best < 0 || width[v] > width[best]) {
				best = v
			}
		}
		if best < 0 || best == b {
			return width[b]
		}
		done[best] = true
		for v := range width {
			if v != best && !done[v] && s.keep[index(s.n, best, v)] {
				width[v] = max(width[v], min(width[best], s.pair(best, v)))
			}
		}
	}
}
