package network

import (
	"cmp"
	"math"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
)

// middle is the mean of the middle half of values: a moment in which a host had
// something else to do, or caught up, does not count. No value gives 0.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	cut := len(s) / 4
	s = s[cut : len(s)-cut]
	sum := 0.0
	for _, v := range s {
		sum += v
	}
	return sum / float64(len(s))
}

// level makes values equal that differ by no more than noise: sorted, they are
// parted at their widest gap, again and again, until the largest of a part is at
// most limit times the smallest; values that follow each other closely stay
// together up to the square of that. Each becomes its part's median, to three
// digits.
func level(values []*float64, limit float64) {
	if len(values) == 0 {
		return
	}
	sorted := slices.Clone(values)
	slices.SortStableFunc(sorted, func(a, b *float64) int { return cmp.Compare(*a, *b) })
	part(sorted, limit)
}

func part(sorted []*float64, limit float64) {
	widest, at := 0.0, 0
	for i := range len(sorted) - 1 {
		if gap := *sorted[i+1] / *sorted[i]; gap > widest {
			widest, at = gap, i+1
		}
	}
	wide := *sorted[len(sorted)-1] / *sorted[0]
	if wide > limit && (widest > math.Sqrt(limit) || wide > limit*limit) {
		part(sorted[:at], limit)
		part(sorted[at:], limit)
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

// The limits of level: links differ by a tenth from moment to moment, and what
// differs by more than two and a half was never noise.
const (
	leastLimit = 1.12
	mostLimit  = 2.5
)

// limitOf is the ratio below which rates that have so much noise, as a part of
// themselves, count as equal.
func limitOf(noise float64) float64 {
	return min(max(math.Exp(5*noise), leastLimit), mostLimit)
}
