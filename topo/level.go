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
	if !slices.ContainsFunc(values, func(v *float64) bool { return *v != *values[0] }) {
		one := numbers.Digits(*values[0])
		for _, v := range values {
			*v = one
		}
		return
	}
	sorted := slices.Clone(values)
	slices.SortStableFunc(sorted, func(a, b *float64) int { return cmp.Compare(*a, *b) })
	levelPart(sorted, limit)
}

// LevelLinks makes the rates of links equal that differ by noise, as Level does, and the
// latencies that are known.
func LevelLinks(links []Link, limit float64) {
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
