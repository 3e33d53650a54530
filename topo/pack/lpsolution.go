package pack

import (
	"math"
	"slices"
)

// refresh makes the inverse anew from the variables in the basis, and so rids
// it of the errors that the pivots have gathered.
func (m *master) refresh() {
	var inside []int32
	for _, v := range m.basic {
		if v >= 0 {
			inside = append(inside, v)
		}
	}
	slices.Sort(inside)
	tight := slices.Clone(m.tight)
	slices.Sort(tight)
	m.reset()
	for _, v := range inside {
		m.express(v)
		out := -1
		for _, r := range tight {
			if p := m.place[r]; p >= 0 && (out < 0 || math.Abs(m.d[p]) > math.Abs(m.d[out])) {
				out = int(p)
			}
		}
		if out < 0 || math.Abs(m.d[out]) < smallPivot {
			continue // the column is, by now, a sum of others
		}
		m.exchange(v, out, m.x[out]/m.d[out], m.gainOf(v))
	}
}

// gainOf is the gain of column v at the present prices.
func (m *master) gainOf(v int32) float64 {
	sum := 1.0
	c := m.cols[v]
	for i, r := range c.rows {
		if p := m.place[r]; p < 0 {
			sum -= float64(c.load[i] * m.price[^p])
		}
	}
	return sum
}

// solution returns the rates of all columns for the capacities as they were
// given: the basis stays, what is below zero there becomes zero, and should a
// row be overbooked, all rates shrink.
func (m *master) solution() []float64 {
	at := make([]float64, len(m.caps))
	for r, c := range m.caps {
		p := m.place[r]
		if p >= 0 {
			at[p] += c
			continue
		}
		for i, v := range m.inverse[^p] {
			at[i] += float64(c * v)
		}
	}
	rates := make([]float64, len(m.cols))
	for i, v := range m.basic {
		if v >= 0 && at[i] > 0 {
			rates[v] = at[i]
		}
	}
	shrink(rates, m.cols, m.caps)
	return rates
}

// shrink makes rates smaller, all by one factor, until no row is overbooked.
func shrink(rates []float64, cols []*column, caps []float64) {
	if f := headroom(rates, cols, caps); f < 1 {
		scale(rates, f)
	}
}

// fit makes rates as large as the rows allow, or as small, all by one factor.
func fit(rates []float64, cols []*column, caps []float64) {
	scale(rates, headroom(rates, cols, caps))
}

// fill makes rates larger one after the other, each by what the others leave.
func fill(rates []float64, cols []*column, caps []float64) {
	left := loads(rates, cols, len(caps))
	for r, l := range left {
		left[r] = max(0, caps[r]-l)
	}
	for k, c := range cols {
		more := c.width(left)
		rates[k] += more
		for i, r := range c.rows {
			left[r] = max(0, left[r]-float64(more*c.load[i]))
		}
	}
	shrink(rates, cols, caps)
}

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
