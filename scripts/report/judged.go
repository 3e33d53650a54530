package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
)

// small is the number of images of a GPU that stands for the "small batch sizes" of the
// proposal: figure 7 has it.
const small = 4

// judged is a sentence of a document, or a goal, with what was found.
type judged struct {
	Holds bool
	args  []any
}

// String is the verdict on a document.
func (j judged) String() string {
	if j.Holds {
		return "reproduced"
	}
	return "**differs**"
}

// Met is the verdict on a goal.
func (j judged) Met() string {
	if j.Holds {
		return "met"
	}
	return "**missed**"
}

// Say writes what was found.
func (j judged) Say(format string) string { return fmt.Sprintf(format, j.args...) }

// joined writes "a, b and c".
func joined(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func pushPullName(count int) string { return fmt.Sprintf("push-pull-%d", count) }

func spelled(way string) string { return strings.Replace(way, "nccl", "NCCL", 1) }

// iteration is the time of an iteration with few images, in ms.
func (s *simulated) iteration(model, kind, way string) float64 {
	ways, err := s.curves(model + "-" + kind)
	if err != nil {
		return math.NaN()
	}
	return at(find(ways, way), small)
}

// OnePushPull: the server's time over the ring's, its extremes.
func (s *simulated) OnePushPull() judged {
	f := s.Figure("push-pull-1")
	least, most := extremes(over(f.points("parameter server"), f.points("nccl ring")))
	return judged{least > 1, []any{least, most}}
}

// ManyPushPulls: the ring's time over the server's, at most, and from where on it is ahead.
func (s *simulated) ManyPushPulls(count int) judged {
	f := s.Figure(pushPullName(count))
	times := over(f.points("nccl ring"), f.points("parameter server"))
	_, slowest := extremes(times)
	return judged{times[0].Y > 1, []any{slowest, about(f.crossesAt("nccl ring", "parameter server"))}}
}

// Regions: how flat and how steep the curves are.
func (s *simulated) Regions() judged {
	flat, steep := 0.0, math.Inf(1)
	for _, count := range pushPullCounts {
		for _, c := range s.Figure(pushPullName(count)).series[:3] {
			last := len(c.Points) - 1
			flat = max(flat, c.Points[2].Y/c.Points[0].Y)
			steep = min(steep, c.Points[last].Y/c.Points[last-1].Y)
		}
	}
	return judged{flat < 1.05 && steep > 1.5, []any{100 * (flat - 1), steep}}
}

// Keys says how many keys the networks have.
func (s *simulated) Keys() (string, error) {
	var words []string
	t := s.tables["networks"]
	if len(t) != 5 {
		return "", fmt.Errorf("%d lines for four networks", len(t))
	}
	for _, row := range t[1:] {
		words = append(words, fmt.Sprintf("%s has %s keys, the largest of %s floats, %s above 2M and %s above 10M",
			modelTitles[row[0]], row[1], commas(row[3]), row[4], row[5]))
	}
	return strings.Join(words, "; "), nil
}

// Ahead: whether one way is faster than another for some networks.
func (s *simulated) Ahead(first, second string, names ...string) judged {
	j := judged{Holds: true}
	var words []string
	for _, name := range names {
		a, b := s.iteration(name, "fp32", first), s.iteration(name, "fp32", second)
		j.Holds = j.Holds && a < b
		words = append(words, fmt.Sprintf("%s %.3g and %.3g ms", modelTitles[name], a, b))
	}
	j.args = []any{small, joined(words)}
	return j
}

// LargeKeys is Ahead for networks of large keys, with the ring's time over the server's.
func (s *simulated) LargeKeys() judged {
	j := s.Ahead("nccl ring", "parameter server", "vgg-16", "alexnet")
	f := s.Figure("push-pull-32")
	most := 0.0
	for _, p := range over(f.points("nccl ring"), f.points("parameter server")) {
		if p.X > 10e6 {
			most = max(most, p.Y)
		}
	}
	return judged{j.Holds && most < 1, append(j.args, most)}
}

// BoundOfVGG: whether the bound makes a difference.
func (s *simulated) BoundOfVGG() judged {
	f := s.Figure("bound-vgg-16")
	whole, alone := f.series[0].Points, f.series[1].Points
	flat := true
	for _, p := range whole {
		flat = flat && (p.X < 1e5 || p.X > 1e8 || p.Y == at(whole, 1e6))
	}
	return judged{!flat, []any{whole[len(whole)-1].Y, at(whole, 1e7), at(alone, 1e6), at(alone, 1e7), at(alone, 1e8)}}
}

// Crossing: from where on several trees are ahead of one.
func (s *simulated) Crossing(count int) judged {
	x := s.Figure(pushPullName(count)).crossesAt("multi-tree", "tree")
	return judged{x >= 1e6 && x <= 10e6, []any{about(x)}}
}

// Peak judges a speed-up of trees against a rival in fp32, within a tenth: the largest,
// from the batch on that stands for small ones.
func (s *simulated) Peak(model, rival string, claimed float64) (judged, error) {
	ways, err := s.curves(model + "-fp32")
	if err != nil {
		return judged{}, err
	}
	got, where := 0.0, 0.0
	for _, p := range over(find(ways, rival), find(ways, "tree")) {
		if p.X >= small && p.Y > got {
			got, where = p.Y, p.X
		}
	}
	found := fmt.Sprintf("%.2f times with %d images of a GPU",
		s.iteration(model, "fp32", rival)/s.iteration(model, "fp32", "tree"), small)
	if where != small {
		found += fmt.Sprintf(", %.2f times with %v", got, where)
	}
	return judged{math.Abs(got/claimed-1) <= 0.1 && got > 1.005, []any{found}}, nil
}

// EndToEnd writes the speed-ups against NCCL.
func (s *simulated) EndToEnd() string {
	var words []string
	for _, name := range models {
		of := func(kind string) float64 {
			return s.iteration(name, kind, "nccl ring") / s.iteration(name, kind, "tree")
		}
		words = append(words, fmt.Sprintf("%s %.2f and %.2f times", modelTitles[name], of("fp32"), of("fp16")))
	}
	return joined(words)
}

// PointByKey: for which sizes the tree is ahead of both rivals.
func (s *simulated) PointByKey() judged {
	j := judged{Holds: true}
	var words []string
	for _, count := range []int{1, 32, 50, 150} {
		f := s.Figure(pushPullName(count))
		ring, server, many := f.points("nccl ring"), f.points("parameter server"), f.points("multi-tree")
		var ahead []string
		for i, p := range f.points("tree") {
			y := p.Y
			if p.X > 10e6 {
				y = many[i].Y
			}
			if y < min(ring[i].Y, server[i].Y) {
				ahead = append(ahead, grouped(p.X))
			} else {
				j.Holds = false
			}
		}
		if len(ahead) == 0 {
			ahead = []string{"none"}
		}
		words = append(words, numbers.Count(count, "push-pull")+": "+joined(ahead))
	}
	j.args = []any{strings.Join(words, "; ")}
	return j
}

// PointByNetwork: at which place trees are for how many networks.
func (s *simulated) PointByNetwork() judged {
	var words []string
	var places [3]int // of trees
	for _, name := range models {
		ways := []string{"tree", "nccl ring", "parameter server"}
		slices.SortStableFunc(ways, func(a, b string) int {
			return cmp.Compare(s.iteration(name, "fp32", a), s.iteration(name, "fp32", b))
		})
		places[slices.Index(ways, "tree")]++
		for i, w := range ways {
			ways[i] = fmt.Sprintf("%s %.4g", spelled(w), s.iteration(name, "fp32", w))
		}
		words = append(words, modelTitles[name]+": "+strings.Join(ways, ", "))
	}
	return judged{places[0] == len(models), []any{places[0], places[1], places[2], small, strings.Join(words, "; ")}}
}

// Authors: by how much the simulated times differ from the measured ones. The first and
// the last of these have fixed two constants.
func (s *simulated) Authors() judged {
	f := s.Figure("sparse-authors")
	measured := f.series[0].Points
	worst, where := 0.0, 0.0
	for i, p := range over(f.series[1].Points, measured) {
		if d := math.Abs(p.Y - 1); d > worst && i > 0 && i < len(measured)-1 {
			worst, where = d, p.X
		}
	}
	return judged{worst < 0.1, []any{100 * worst, where}}
}

// OverNCCL judges how many times as fast as NCCL's dense AllReduce, which the authors
// measured, the simulated one is.
func (s *simulated) OverNCCL(percent, times float64) judged {
	const dense = 17.2 // ms
	got := dense / at(s.Figure("sparse-authors").series[1].Points, percent)
	return judged{math.Abs(got/times-1) < 0.1, []any{got, dense}}
}

// Logarithm: what twice the hosts cost trees and a ring.
func (s *simulated) Logarithm() judged {
	f := s.Figure("tree-against-ring")
	trees, ring := f.points("double binary trees"), f.points("ring")
	last := len(trees) - 1
	least, most := math.Inf(1), 0.0
	for i := 4; i <= last; i++ { // hosts double, from two of them on
		more := trees[i].Y - trees[i-1].Y
		least, most = min(least, more), max(most, more)
	}
	return judged{most-least < 0.05*most, []any{most, ring[last].Y / ring[last-1].Y, grouped(ring[last].X)}}
}

// Announced: the ring's time over that of trees at the largest size.
func (s *simulated) Announced(announced float64) judged {
	f := s.Figure("tree-against-ring")
	times := over(f.points("ring"), f.points("double binary trees"))
	got := times[len(times)-1].Y
	return judged{math.Abs(got-announced) < 0.1*announced, []any{got, got / announced}}
}

// ManyHosts: the time of rings over that of trees, for small and large messages.
func (s *simulated) ManyHosts() judged {
	f := s.Figure("many-hosts")
	times := over(f.points("rings"), f.points("trees between hosts"))
	small, large := times[0].Y, times[len(times)-1].Y
	return judged{small > 100 && large > 0.8, []any{small, large}}
}

// Start: what twice the hosts cost at most, and what a rank sends at most.
func (s *simulated) Start() judged {
	p := s.Figure("start-messages").series[0].Points
	last := p[len(p)-1]
	steps := 0.0
	for i := range p[1:] {
		steps = max(steps, p[i+1].Y-p[i].Y)
	}
	return judged{steps <= 24 && last.Y < 200, []any{steps, grouped(last.X), last.Y}}
}

// OfLimit: which share of the limit sparse trees reach.
func (s *simulated) OfLimit(places string) judged {
	f := s.Figure("sparse-" + places)
	least, _ := extremes(over(f.series[2].Points, f.series[1].Points))
	return judged{least >= 0.8, []any{least}}
}

// OfAggregators: the time of sparse trees over that of aggregators on the workers.
func (s *simulated) OfAggregators(places string) judged {
	f := s.Figure("sparse-" + places)
	_, most := extremes(over(f.series[1].Points, f.series[0].Points))
	return judged{most <= 1, []any{most}}
}
