package pack

import (
	"math"
	"slices"
)

// column is one variable of the packing program: it takes load[i] of row
// rows[i] per unit of rate. Rows rise.
type column struct {
	rows []int32
	load []float64
}

// master is the linear program
//
//	max sum x,  sum over columns of x*load <= capacity in every row,  x >= 0
//
// to which columns are added while it is being solved. It is solved by the
// primal simplex method, which always has a first solution here: nothing is
// used and every row has slack.
//
// It has the dictionary of the slacks only that are outside the basis, those of
// the rows that are used up. There are as many of them as trees in the solution, so that a
// pivot costs rows times trees, not rows times columns. A column that enters is
// expressed by them, and one that leaves is not followed any further.
//
// The simplex of gonum does not serve: it gives no prices, which column generation needs; and it starts from the
// beginning every time.
//
// Ties, the cause of simplex methods that run in circles, are broken by making every row larger by a share of its own
// of at most perturbation; solution takes that back. The number of pivots is limited nevertheless. The dictionary is
// never made again: 6,000 pivots gathered a relative error of 1e-11, which solution takes off.
type master struct {
	caps []float64 // by row: the capacity
	cols []*column // nil: dropped
	used []bool    // by column: it is in the basis

	basic   []int32    // by place: the variable there, a column or ^row for the slack of a row
	x       []float64  // by place: its value
	place   []int32    // by row: the place of its slack, ^j when that is outside[j]
	outside []nonbasic // the slacks of the rows that are used up

	y     []float64 // scratch of entering, all zero between uses
	spent float64   // on pivots so far, in multiplications
	limit float64   // solve gives up when that much work is done
}

// nonbasic is a variable outside the basis.
type nonbasic struct {
	variable int32
	coeff    []float64 // by place: the decrease of the variable there for one unit of this
	gain     float64   // the increase of the value for it; of a slack, less the price of its row
}

const (
	perturbation = 1e-7
	smallPrice   = 1e-10 // a gain below it is none
	smallPivot   = 1e-8  // a pivot below it is none
)

// newMaster returns a program in which every row has slack.
func newMaster(caps []float64, limit float64, cols ...*column) *master {
	m := &master{caps: caps, limit: limit, cols: slices.Clone(cols), used: make([]bool, len(cols)),
		y: make([]float64, len(caps))}
	for r, c := range caps {
		m.basic, m.place = append(m.basic, ^int32(r)), append(m.place, int32(r))
		// Multiples of the golden ratio: spread evenly, and never in step.
		part := float64(uint32(r+1)*2654435769) / (1 << 32)
		m.x = append(m.x, c*(1+float64(perturbation*part)))
	}
	return m
}

// clone returns a copy that shares the columns only.
func (m *master) clone() *master {
	c := *m
	c.cols, c.used = slices.Clone(m.cols), slices.Clone(m.used)
	c.basic, c.x, c.place = slices.Clone(m.basic), slices.Clone(m.x), slices.Clone(m.place)
	c.outside, c.y = slices.Clone(m.outside), make([]float64, len(m.caps))
	for j := range c.outside {
		c.outside[j].coeff = slices.Clone(c.outside[j].coeff)
	}
	return &c
}

// add makes a column known and returns its number.
func (m *master) add(c *column) int {
	m.cols = append(m.cols, c)
	m.used = append(m.used, false)
	return len(m.cols) - 1
}

// value is the sum of the rates, with the rows as large as they were made.
func (m *master) value() float64 {
	sum := 0.0
	for i, v := range m.basic {
		if v >= 0 {
			sum += m.x[i]
		}
	}
	return sum
}

// prices writes the worth of one more unit of every row to y.
func (m *master) prices(y []float64) {
	clear(y)
	for _, s := range m.outside {
		y[^s.variable] = max(0, -s.gain)
	}
}

// gain is the increase of the value for one unit of the rate of c.
func (c *column) gain(y []float64) float64 {
	sum := 1.0
	for i, r := range c.rows {
		sum -= float64(c.load[i] * y[r])
	}
	return sum
}

// solve moves to the best solution with the columns that are known, and reports whether it got there within the given
// number of pivots.
func (m *master) solve(pivots int) bool {
	for range pivots {
		if m.spent > m.limit {
			return false
		}
		m.spent += float64(len(m.caps) * (len(m.outside) + 2))
		in := m.entering()
		if in.gain <= smallPrice {
			return true
		}
		out := m.leaving(in.coeff)
		if out < 0 {
			return false // the figures have gone bad; the last solution is good
		}
		m.exchange(in, out)
	}
	return false
}

// entering returns the variable outside the basis that gains the most.
func (m *master) entering() nonbasic {
	var best nonbasic
	for _, s := range m.outside {
		m.y[^s.variable] = -s.gain
		if s.gain > max(smallPrice, best.gain) {
			best = s
		}
	}
	column, gain := -1, best.gain
	for k, c := range m.cols {
		if c == nil || m.used[k] {
			continue
		}
		if g := c.gain(m.y); g > gain {
			column, gain = k, g
		}
	}
	if gain > smallPrice && column >= 0 {
		best = m.express(int32(column))
	}
	clear(m.y)
	return best
}

// express writes column k in terms of the basis.
func (m *master) express(k int32) nonbasic {
	e := nonbasic{variable: k, coeff: make([]float64, len(m.caps)), gain: 1}
	c := m.cols[k]
	for i, r := range c.rows {
		if p := m.place[r]; p >= 0 {
			e.coeff[p] += c.load[i]
			continue
		}
		slack := m.outside[^m.place[r]]
		for i2, v := range slack.coeff {
			e.coeff[i2] += float64(c.load[i] * v)
		}
		e.gain += float64(c.load[i] * slack.gain)
	}
	return e
}

// leaving returns the place whose variable is the first to reach zero when one with these
// coefficients grows, -1 when none does. Of equals it takes the largest pivot.
func (m *master) leaving(coeff []float64) int {
	out, best := -1, 0.0
	for i, d := range coeff {
		if d <= smallPivot {
			continue
		}
		if ratio := max(0, m.x[i]) / d; out < 0 || ratio < best || ratio == best && d > coeff[out] {
			out, best = i, ratio
		}
	}
	return out
}

// exchange puts the entering variable in place out.
func (m *master) exchange(in nonbasic, out int) {
	pivot := in.coeff[out]
	step := m.x[out] / pivot
	for i, d := range in.coeff {
		m.x[i] -= float64(step * d)
	}
	m.x[out] = step
	if in.variable >= 0 {
		m.used[in.variable] = true
	} else {
		j, last := ^m.place[^in.variable], len(m.outside)-1
		m.outside[j] = m.outside[last]
		m.place[^m.outside[j].variable] = ^j
		m.outside = m.outside[:last]
		m.place[^in.variable] = int32(out)
	}
	for j := range m.outside {
		s := &m.outside[j]
		factor := s.coeff[out] / pivot
		if factor == 0 {
			continue
		}
		for i, d := range in.coeff {
			s.coeff[i] -= float64(factor * d)
		}
		s.coeff[out] = factor
		s.gain -= float64(in.gain * factor)
	}
	leaving := m.basic[out]
	m.basic[out] = in.variable
	if leaving >= 0 {
		m.used[leaving] = false
		return
	}
	for i, d := range in.coeff {
		in.coeff[i] = -d / pivot
	}
	in.coeff[out] = 1 / pivot
	m.outside = append(m.outside, nonbasic{leaving, in.coeff, -in.gain / pivot})
	m.place[^leaving] = ^int32(len(m.outside) - 1)
}

// solution returns the rates of all columns for the capacities as they were given: the basis stays, rates below zero
// become zero, and should a row be overbooked, all rates shrink.
func (m *master) solution() []float64 {
	at := make([]float64, len(m.caps))
	for r, c := range m.caps {
		p := m.place[r]
		if p >= 0 {
			at[p] += c
			continue
		}
		for i, v := range m.outside[^p].coeff {
			at[i] += float64(c * v)
		}
	}
	rates := make([]float64, len(m.cols))
	for i, v := range m.basic {
		if v >= 0 && at[i] > 0 {
			rates[v] = at[i]
		}
	}
	scale(rates, min(1, headroom(rates, m.cols, m.caps)))
	return rates
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

// loads returns the load of the columns on every row at the given rates.
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
