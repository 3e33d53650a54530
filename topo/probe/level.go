package probe

import (
	"math"
	"slices"
	"strconv"
)

// level replaces values that lie within noise of each other by their median,
// and all others by the nearest step of a scale of sqrt(2), in place.
func level(values []float64) {
	if len(values) == 0 {
		return
	}
	if lo, hi := slices.Min(values), slices.Max(values); hi <= noise*lo {
		fill(values, digits(median(values)))
		return
	}
	for i, v := range values {
		values[i] = digits(math.Exp2(math.Round(2*math.Log2(v)) / 2))
	}
}

// digits rounds to three significant digits: more are not known.
func digits(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	if err != nil {
		return v
	}
	return r
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[len(s)/2]
}

func fill(values []float64, v float64) {
	for i := range values {
		values[i] = v
	}
}
