package pack

import "math"

func scale(rates []float64, factor float64) {
	for k := range rates {
		rates[k] *= factor
	}
}

// headroom is the factor by which all rates can grow.
func headroom(rates []float64, cols []*column, caps []float64) float64 {
	factor := math.Inf(1)
	for r, l := range loads(rates, cols, len(caps)) {
		if l > 0 {
			factor = min(factor, caps[r]/l)
		}
	}
	return factor
}

// loads returns what the columns take of every row at the given rates.
func loads(rates []float64, cols []*column, rows int) []float64 {
	load := make([]float64, rows)
	for k, c := range cols {
		if c == nil {
			continue
		}
		for i, r := range c.rows {
			load[r] += float64(rates[k] * c.load[i])
		}
	}
	return load
}
