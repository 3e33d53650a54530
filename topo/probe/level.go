package probe

import (
	"math"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
)

// level replaces values that lie within noise of each other by their median,
// and all others by the nearest step of a scale of sqrt(2), in place.
func level(values []float64) {
	if len(values) == 0 {
		return
	}
	if lo, hi := slices.Min(values), slices.Max(values); hi <= noise*lo {
		fill(values, numbers.Digits(numbers.Median(values)))
		return
	}
	for i, v := range values {
		values[i] = numbers.Digits(math.Exp2(math.Round(2*math.Log2(v)) / 2))
	}
}

func fill(values []float64, v float64) {
	for i := range values {
		values[i] = v
	}
}
