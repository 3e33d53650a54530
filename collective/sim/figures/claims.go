package figures

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
