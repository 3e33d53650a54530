package network

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// Infer makes the network of the named hosts from their findings. Flows that were alone give the rate of their pair;
// where those from or to one host together bring less than each of them alone, the host has a Port of their sum.
//
// Pairs that were not measured are as quick as the slower of their hosts was
// with others. At least one flow and one trip must be there.
func Infer(hosts []string, f *Findings) (*Network, error) {
	n := len(hosts)
	if n < 2 || n > maxHosts {
		return nil, fmt.Errorf("network: %d hosts, want 2..%d", n, maxHosts)
	}
	if err := f.validate(n); err != nil {
		return nil, err
	}
	x := inference{n: n, alone: make(map[[2]int][]float64)}
	x.sort(f.Flows)
	if len(x.alone) == 0 || len(f.Trips) == 0 {
		return nil, fmt.Errorf("network: %d hosts found no flow between two of them, or no trip", n)
	}
	x.rates()
	net := newNetwork(slices.Clone(hosts))
	net.Graph.Links = x.pairs(f.Trips)
	x.ports(net)
	x.even(&net.Graph)
	return net, net.Validate()
}

// inference is an Infer under way.
type inference struct {
	n     int
	alone map[[2]int][]float64 // rates of single flows, by source and destination
	out   [][]float64          // by source and destination: the rate of a single flow, 0 where there was none
	most  []float64            // by host: its quickest single flow
	stars []star
	limit float64 // ratio that noise makes
}

// star is a turn's flows from one host, or to it.
type star struct {
	host int
	way  int // out of the host, or into it
	peer []int
	each []float64 // of every flow, GB/s
	all  float64   // of all at once, GB/s
}

// The ways of the flows of a star.
const (
	out = iota
	into
)

// alongside returns the place of the single rate of a star's flow with a peer.
func (x *inference) alongside(s *star, peer int) *float64 {
	if s.way == into {
		return &x.out[peer][s.host]
	}
	return &x.out[s.host][peer]
}

// sort finds single flows and stars among the flows of each turn.
func (x *inference) sort(flows []Flow) {
	sorted := slices.Clone(flows)
	slices.SortStableFunc(sorted, func(a, b Flow) int { return cmp.Or(a.Turn-b.Turn, a.Src-b.Src, a.Dst-b.Dst) })
	var spread []float64
	for len(sorted) > 0 {
		end := 1
		for end < len(sorted) && sorted[end].Turn == sorted[0].Turn {
			end++
		}
		spread = append(spread, x.turn(sorted[:end])...)
		sorted = sorted[end:]
	}
	x.limit = limitOf(x.noise(numbers.Median(spread)))
}

// turn takes the flows of one turn, and returns the uncertainty of the single ones, as a part of their rate.
func (x *inference) turn(flows []Flow) (spread []float64) {
	from, to := make(map[int][]Flow), make(map[int][]Flow)
	for _, w := range flows {
		from[w.Src] = append(from[w.Src], w)
		to[w.Dst] = append(to[w.Dst], w)
	}
	for _, w := range flows {
		switch {
		case len(from[w.Src]) > 1 && from[w.Src][0].Dst == w.Dst:
			x.stars = append(x.stars, newStar(w.Src, out, from[w.Src]))
		case len(to[w.Dst]) > 1 && to[w.Dst][0].Src == w.Src:
			x.stars = append(x.stars, newStar(w.Dst, into, to[w.Dst]))
		case len(from[w.Src])+len(to[w.Src])+len(from[w.Dst])+len(to[w.Dst]) == 2:
			rate := w.Middle()
			if rate <= 0 {
				continue // a turn that was lost
			}
			key := [2]int{w.Src, w.Dst}
			x.alone[key] = append(x.alone[key], rate)
			spread = append(spread, uncertainty(w.Slices, rate))
		}
	}
	return spread
}

// uncertainty is about the standard error of the middle of values.
func uncertainty(values []float64, middle float64) float64 {
	s := slices.Sorted(slices.Values(values))
	quarter := len(s) / 4
	return (s[len(s)-1-quarter] - s[quarter]) / middle / 1.35 / math.Sqrt(float64(len(s)))
}

func newStar(host, way int, flows []Flow) star {
	s := star{host: host, way: way}
	var sum []float64
	for _, w := range flows {
		s.peer = append(s.peer, w.Src+w.Dst-host)
		s.each = append(s.each, w.Middle())
		for i, v := range w.Slices {
			if i == len(sum) {
				sum = append(sum, 0)
			}
			sum[i] += v
		}
	}
	s.all = middle(sum)
	return s
}

// noise is the difference of single flows that should be equal, as a part of their rate: the two directions of a pair,
// of which the median counts. Where flows are steady in themselves, within a spread, directions that differ much really
// do.
func (x *inference) noise(spread float64) float64 {
	var list []float64
	for a := range x.n {
		for b := a + 1; b < x.n; b++ {
			there, back := combined(x.alone[[2]int{a, b}]), combined(x.alone[[2]int{b, a}])
			if there > 0 && back > 0 {
				list = append(list, min(math.Log(ratio(there, back))/math.Sqrt2, 0.2))
			}
		}
	}
	return max(spread, min(numbers.Median(list), float64(4*spread)+0.02))
}

// rates makes one rate of all rates that a flow had alone.
func (x *inference) rates() {
	x.out, x.most = make([][]float64, x.n), make([]float64, x.n)
	for a := range x.out {
		x.out[a] = make([]float64, x.n)
	}
	for key, list := range x.alone {
		x.out[key[0]][key[1]] = combined(list)
	}
	for i := range x.stars {
		s := &x.stars[i]
		for k, p := range s.peer { // a rate that a flow reached among others it reaches alone
			if at := x.alongside(s, p); *at > 0 {
				*at = max(*at, s.each[k])
			}
		}
	}
	for a, row := range x.out {
		for b, v := range row {
			x.most[a], x.most[b] = max(x.most[a], v), max(x.most[b], v)
		}
	}
}

// combined makes one rate of several measurements of a flow: the best of two, since any disturbance of a flow makes it
// slower, the second best of more.
func combined(list []float64) float64 {
	switch n := len(list); n {
	case 0:
		return 0
	case 1, 2:
		return slices.Max(list)
	default:
		return slices.Sorted(slices.Values(list))[n-2]
	}
}

// pair is the rate of a pair each way, 0 where it was not measured: the common rate of both directions where they
// differ by noise, or the slower. Where noise is large, a direction that is slower still was disturbed.
func (x *inference) pair(a, b int) float64 {
	switch there, back := x.out[a][b], x.out[b][a]; {
	case there == 0:
		return back
	case back == 0:
		return there
	case ratio(there, back) <= x.limit:
		return (there + back) / 2
	case x.limit > x.held():
		return max(there, back)
	default:
		return min(there, back)
	}
}

// pairs makes the pairs, without the leveling.
func (x *inference) pairs(trips []Trip) (list []topo.Link) {
	us := make(map[[2]int32]float64)
	var all []float64
	for _, t := range trips {
		i := topo.Pair(t.A, t.B)
		if before, ok := us[i]; !ok || t.Us < before {
			us[i] = t.Us
		}
		all = append(all, t.Us)
	}
	least := slices.Max(x.most)
	for _, v := range x.most {
		if v > 0 {
			least = min(least, v)
		}
	}
	for a := range x.n {
		for b := a + 1; b < x.n; b++ {
			p := topo.Link{A: a, B: b, GBytesPerSecond: x.pair(a, b), Kind: topo.TCP, Source: topo.Measured}
			if p.GBytesPerSecond == 0 {
				p.GBytesPerSecond, p.Source = x.guess(a, b), topo.Estimated
			}
			if p.GBytesPerSecond == 0 { // of a host that has no flow at all
				p.GBytesPerSecond = least
			}
			p.GBytesPerSecond = clampRate(p.GBytesPerSecond)
			var known bool
			if p.LatencyUs, known = us[topo.Pair(a, b)]; !known {
				p.LatencyUs = numbers.Median(all)
			}
			p.LatencyUs = max(p.LatencyUs, topo.MinLatency)
			list = append(list, p)
		}
	}
	return list
}

// guess is the rate of a pair that was not measured.
func (x *inference) guess(a, b int) float64 { return min(x.most[a], x.most[b]) }

// shared returns the ratio of the rates of a star's flows, each alone, to those of all at once; 0 where one of them was
// never alone.
func (x *inference) shared(s *star) float64 {
	sum := 0.0
	for _, p := range s.peer {
		v := x.single(s, p)
		if v == 0 {
			return 0
		}
		sum += v
	}
	if s.all <= 0 {
		return 0
	}
	return sum / s.all
}

// single is the rate that the flow of a star with a peer had alone.
func (x *inference) single(s *star, peer int) float64 {
	if v := *x.alongside(s, peer); v > 0 {
		return v
	}
	return x.guess(s.host, peer)
}

// held is the ratio up to which flows count as undisturbed by each other.
func (x *inference) held() float64 { return min(x.limit, 1.5) }

// ports gives every host one whose flows share something.
func (x *inference) ports(net *Network) {
	all := make([][2][]float64, x.n) // by host and way: the rates of its stars
	alone := make([][2]float64, x.n) // and the rates of their flows alone
	for i := range x.stars {
		s := &x.stars[i]
		shared := x.shared(s)
		if shared == 0 {
			continue
		}
		all[s.host][s.way] = append(all[s.host][s.way], s.all)
		alone[s.host][s.way] = shared * s.all
	}
	carries := func(h, way int, threshold float64) float64 { // 0: nothing is shared
		if v := combined(all[h][way]); v > 0 && alone[h][way] > threshold*v {
			return clampRate(v)
		}
		return 0
	}
	threshold, carrying := x.held(), 0
	for h := range x.n {
		if carries(h, out, threshold)+carries(h, into, threshold) > 0 {
			carrying++
		}
	}
	if 2*carrying > x.n { // the others will have one, too
		threshold = 1 + float64((threshold-1)/2)
		if x.limit > x.held() {
			threshold = 0
		}
	}
	for h := range x.n {
		rate := carries(h, out, threshold)
		if in := carries(h, into, threshold); rate == 0 || in > 0 && in < rate {
			rate = in
		}
		if rate > 0 {
			net.addPort(h, rate)
		}
	}
}

// even makes rates and latencies equal that differ by noise only. A card
// carries at least what one flow of the host reached.
func (x *inference) even(g *topo.Graph) {
	most := make([]float64, x.n)
	var rates, latencies []*float64
	for i := range g.Links {
		p := &g.Links[i]
		most[p.A], most[p.B] = max(most[p.A], p.GBytesPerSecond), max(most[p.B], p.GBytesPerSecond)
		rates, latencies = append(rates, &p.GBytesPerSecond), append(latencies, &p.LatencyUs)
	}
	for i := range g.Ports {
		p := &g.Ports[i]
		p.GBytesPerSecond = max(p.GBytesPerSecond, most[p.Ranks[0]])
		rates = append(rates, &p.GBytesPerSecond)
	}
	topo.Level(rates, x.limit)
	topo.Level(latencies, maxLimit)
}

// middle is the mean of the middle half of values: a moment in which a host had
// something else to do, or caught up, does not count. No value gives 0.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	cut := len(s) / 4
	s = s[cut : len(s)-cut]
	return numbers.Sum(s) / float64(len(s))
}

// The limits of topo.Level: links differ by a tenth from moment to moment, and a difference of more than two and a half
// was never noise.
const (
	minLimit = 1.12
	maxLimit = 2.5
)

// limitOf is the ratio below which rates that have so much noise, as a part of
// themselves, count as equal.
func limitOf(noise float64) float64 {
	return min(max(math.Exp(5*noise), minLimit), maxLimit)
}
