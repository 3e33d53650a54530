package topo

import (
	"cmp"
	"math"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
)

// Level makes values equal that differ by no more than noise: sorted, they are
// parted at their widest gap, again and again, until the largest of a part is at
// most limit times the smallest; values that follow each other closely stay
// together up to the square of that. Each becomes its part's median, to three
// digits.
func Level(values []*float64, limit float64) {
	if len(values) == 0 {
		return
	}
	sorted := slices.Clone(values)
	slices.SortStableFunc(sorted, func(a, b *float64) int { return cmp.Compare(*a, *b) })
	levelPart(sorted, limit)
}

// LevelLinks makes the rates of links equal that differ by noise, as Level does, and the
// latencies that are known.
func LevelLinks(links []Link, limit float64) {
	if len(links) == 0 {
		return
	}
	same := true
	for i := range links {
		l := &links[i]
		same = same && l.GBytesPerSecond == links[0].GBytesPerSecond && l.LatencyUs == links[0].LatencyUs
	}
	if same { // as on ranks that share cores: there may be many
		rate, latency := numbers.Digits(links[0].GBytesPerSecond), numbers.Digits(links[0].LatencyUs)
		for i := range links {
			links[i].GBytesPerSecond, links[i].LatencyUs = rate, latency
		}
		return
	}
	rates, latencies := make([]*float64, 0, len(links)), make([]*float64, 0, len(links))
	for i := range links {
		rates = append(rates, &links[i].GBytesPerSecond)
		if links[i].LatencyUs > 0 {
			latencies = append(latencies, &links[i].LatencyUs)
		}
	}
	Level(rates, limit)
	Level(latencies, limit)
}

func levelPart(sorted []*float64, limit float64) {
	widest, at := 0.0, 0
	for i := range len(sorted) - 1 {
		if gap := *sorted[i+1] / *sorted[i]; gap > widest {
			widest, at = gap, i+1
		}
	}
	wide := *sorted[len(sorted)-1] / *sorted[0]
	if wide > limit && (widest > math.Sqrt(limit) || wide > limit*limit) {
		levelPart(sorted[:at], limit)
		levelPart(sorted[at:], limit)
		return
	}
	var list []float64
	for _, v := range sorted {
		list = append(list, *v)
	}
	m := numbers.Digits(numbers.Median(list))
	for _, v := range sorted {
		*v = m
	}
}
