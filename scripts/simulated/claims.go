package main

import (
	"fmt"
	"math"
	"strconv"
)

// Claim is what an original says of the shape of its figure, beside what the
// simulated curves say.
type Claim struct {
	Text  string // the original's words, shortened, with their place
	Holds bool   // of the simulated curves
	Found string // what they say, with figures
}

// mostOfSmall is the size up to which the proposal speaks of small keys, and
// from which of large ones, in floats.
const (
	mostOfSmall   = 2 << 20
	fewestOfLarge = 10e6
)

// pushPullClaims judges what the proposal says of figure 2.
func (f *Figure) pushPullClaims(count int) []Claim {
	ring, server := f.points("nccl ring"), f.points("parameter server")
	if count == 1 {
		c := Claim{Text: "Figure 2a: NCCL is clearly the best for one push-pull.", Holds: true}
		least, most := math.Inf(1), 0.0
		for i := range ring {
			times := server[i].Y / ring[i].Y
			least, most = min(least, times), max(most, times)
		}
		c.Holds = least > 1
		c.Found = fmt.Sprintf("The parameter server takes %.2g to %.2g times as long as the ring, over all sizes.", least, most)
		return []Claim{c, f.largeKeys(ring, server)}
	}
	slower := 0.0
	for i := range ring {
		slower = max(slower, ring[i].Y/server[i].Y)
	}
	cross := f.crossesAt("nccl ring", "parameter server")
	small := Claim{
		Text:  fmt.Sprintf("Figure 2, %d push-pulls: NCCL is slower than the parameter server for small keys.", count),
		Holds: ring[0].Y > server[0].Y,
		Found: fmt.Sprintf("The ring takes up to %.2g times as long, and is ahead from about %s floats on.", slower, About(cross)),
	}
	upTo2M := Claim{
		Text:  fmt.Sprintf("Below figure 2, read as a claim on every key size, %d push-pulls: the parameter server is ahead for keys of up to 2M floats.", count),
		Holds: !(cross < mostOfSmall),
	}
	for i, p := range ring {
		if p.X == mostOfSmall {
			upTo2M.Found = fmt.Sprintf("The curves cross at about %s floats, a factor of %.2g below 2M; at 2M the ring takes %.2g times as long as the parameter server.",
				About(cross), mostOfSmall/cross, p.Y/server[i].Y)
		}
	}
	return []Claim{small, upTo2M}
}

// largeKeys judges what the proposal says of large keys.
func (f *Figure) largeKeys(ring, server []Point) Claim {
	c := Claim{Text: "Below figure 2: NCCL is ahead for few push-pulls on keys above 10M floats.", Holds: true}
	most := 0.0
	for i, p := range ring {
		if p.X > fewestOfLarge {
			most = max(most, p.Y/server[i].Y)
		}
	}
	c.Holds = most < 1
	c.Found = fmt.Sprintf("With one push-pull the ring takes at most %.2g times as long as the parameter server there.", most)
	return c
}

// arrayBoundClaims judges what the proposal says of figure 7.
func (f *Figure) arrayBoundClaims(count int) []Claim {
	cross := f.crossesAt("multi-tree", "tree")
	return []Claim{{
		Text:  fmt.Sprintf("Figure 7, %s: several trees begin to be ahead of one at 1M to 10M floats.", pushPulls(count)),
		Holds: cross >= 1e6 && cross <= 10e6,
		Found: fmt.Sprintf("They are ahead from about %s floats on.", About(cross)),
	}}
}

// scaleClaims judges what NCCL 2.4 was announced with.
func (f *Figure) scaleClaims() []Claim {
	const said = 180
	trees, ring := f.points("double binary trees"), f.points("ring")
	last := len(trees) - 1
	first := last
	for first > 0 && trees[first].X == 2*trees[first-1].X { // hosts double
		first--
	}
	least, most := math.Inf(1), 0.0
	for i := first + 2; i <= last; i++ { // from two hosts on
		more := trees[i].Y - trees[i-1].Y
		least, most = min(least, more), max(most, more)
	}
	times := ring[last].Y / trees[last].Y
	return []Claim{
		{
			Text:  "NCCL 2.4: the latency of trees grows with the logarithm of the number of GPUs, that of a ring with the number.",
			Holds: most-least < 0.05*most,
			Found: fmt.Sprintf("Twice the hosts cost trees %.3g us more, every time; the ring takes %.3g times as long at %s GPUs as at half of them.",
				most, ring[last].Y/ring[last-1].Y, Grouped(ring[last].X)),
		},
		{
			Text:  fmt.Sprintf("NCCL 2.4: up to %d times lower latency at 24,576 GPUs of Summit, measured.", said),
			Holds: math.Abs(times-said) < 0.1*said,
			Found: fmt.Sprintf("%.3g times, which is %.2g times as much: the model counts latencies alone, and those of the network as equal everywhere.", times, times/said),
		},
	}
}

// hostsClaims judges what treerun wants of 1,024 hosts.
func (f *Figure) hostsClaims() []Claim {
	trees, rings := f.Series[0].Points, f.Series[1].Points
	last := len(trees) - 1
	small, large := rings[0].Y/trees[0].Y, rings[last].Y/trees[last].Y
	return []Claim{{
		Text:  "treerun: on 1,024 hosts of 8 GPUs trees are far ahead of rings for small messages, and nowhere far behind.",
		Holds: small > 100 && large > 0.8,
		Found: fmt.Sprintf("The rings take %.3g times as long for 8 bytes and %.2g times for 1 GiB.", small, large),
	}}
}

// startClaims judges what treerun wants of the start of a job.
func (f *Figure) startClaims() []Claim {
	p := f.Series[0].Points
	last := len(p) - 1
	steps := 0.0 // the most that twice the hosts cost
	for i := 1; i <= last; i++ {
		steps = max(steps, p[i].Y-p[i-1].Y)
	}
	return []Claim{{
		Text:  "treerun: what a rank sends while a job starts grows with the logarithm of the number of ranks.",
		Holds: steps <= 24 && p[last].Y < 200,
		Found: fmt.Sprintf("Twice the hosts cost at most %.3g messages more; %s ranks send at most %.3g each.", steps, Grouped(p[last].X), p[last].Y),
	}}
}

// authorsClaims judges what the authors of OmniReduce measured.
func (f *Figure) authorsClaims() []Claim {
	const (
		near      = 0.1
		ncclDense = 17.2 // ms, measured by the authors
	)
	measured, simulated := f.Series[0].Points, f.Series[1].Points
	worst, at := 0.0, 0.0
	for i, p := range measured {
		if d := math.Abs(simulated[i].Y/p.Y - 1); d > worst {
			worst, at = d, p.X
		}
	}
	faster := func(points []Point, percent float64) float64 {
		for _, p := range points {
			if p.X == percent {
				return ncclDense / p.Y
			}
		}
		return math.NaN()
	}
	return []Claim{{
		Text:  "OmniReduce: the times of a sparse AllReduce on 8 workers at 100 Gbit/s, at nine densities.",
		Holds: worst < near,
		Found: fmt.Sprintf("The simulated times differ by at most %.0f %%, at %v %% of the blocks.", 100*worst, at),
	}, {
		Text:  "OmniReduce: 5.5 times as fast as NCCL's dense AllReduce at 1 % of the blocks, 2.2 times at 10 %, 1.4 times at 40 %.",
		Holds: math.Abs(faster(simulated, 1)/5.5-1) < near && math.Abs(faster(simulated, 10)/2.2-1) < near && math.Abs(faster(simulated, 40)/1.4-1) < near,
		Found: fmt.Sprintf("%.1f, %.1f and %.1f times as fast as NCCL's measured %v ms.", faster(simulated, 1), faster(simulated, 10), faster(simulated, 40), ncclDense),
	}}
}

// treesClaims judges what treerun wants of sparse trees.
func (f *Figure) treesClaims(places string) []Claim {
	omni, trees, limit := f.Series[0].Points, f.Series[1].Points, f.Series[2].Points
	least, most := math.Inf(1), 0.0
	for i := range trees {
		least = min(least, limit[i].Y/trees[i].Y)
		most = max(most, trees[i].Y/omni[i].Y)
	}
	return []Claim{{
		Text:  fmt.Sprintf("treerun: sparse trees reach 0.80 of the limit at every density, blocks %s.", places),
		Holds: least >= 0.8,
		Found: fmt.Sprintf("They reach %.2f of it or more.", least),
	}, {
		Text:  fmt.Sprintf("treerun: sparse trees are at least as fast as aggregators on the workers, blocks %s.", places),
		Holds: most <= 1,
		Found: fmt.Sprintf("They take at most %.2f times as long.", most),
	}}
}

// points returns the curve of a name.
func (f *Figure) points(name string) []Point {
	for _, s := range f.Series {
		if s.Name == name {
			return s.Points
		}
	}
	return nil
}

// crossesAt returns from where on one curve lies below another, NaN where it
// never comes to that.
func (f *Figure) crossesAt(below, above string) float64 {
	for _, c := range f.Crossings {
		if c.Below == below && c.Above == above {
			return c.X
		}
	}
	return math.NaN()
}

// pushPulls writes a number of push-pulls.
func pushPulls(count int) string {
	if count == 1 {
		return "1 push-pull"
	}
	return fmt.Sprintf("%d push-pulls", count)
}

// Grouped writes a whole number with a comma between thousands.
func Grouped(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// About writes a number with the three digits that an interpolation is good for.
func About(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return Grouped(math.Round(v/unit) * unit)
}
