package network

import (
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
	return numbers.Sum(s) / float64(len(s))
}

// The limits of topo.Level: links differ by a tenth from moment to moment, and what
// differs by more than two and a half was never noise.
const (
	minLimit = 1.12
	maxLimit = 2.5
)

// limitOf is the ratio below which rates that have so much noise, as a part of
// themselves, count as equal.
func limitOf(noise float64) float64 {
	return min(max(math.Exp(5*noise), minLimit), maxLimit)
}
