package pack

import "slices"

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
// Of the inverse of the basis only those columns are kept that are not unit
// vectors: the ones of the rows that are used up. There are as many of them as
// trees in the solution, so that a pivot costs rows times trees, not the
// square of the rows; with the few trees of a plan that is next to nothing.
//
// The simplex of gonum does not serve: it gives no prices, and column
// generation lives on them; and it starts anew every time.
//
// Ties, the cause of simplex methods that run in circles, are broken by making
// every row larger by a share of its own of at most perturbation; solution
// takes that back. Should it stand still all the same, Bland's rule takes over
// until it moves.
//
// Products are converted to float64 before they are added: that keeps a
// compiler from fusing the two, and the result the same on every machine.
type master struct {
	caps []float64 // by row: the capacity
	cols []*column
	used []bool // by column: it is in the basis

	basic []int32   // by place: the variable there, a column or ^row for the slack of a row
	x     []float64 // by place: its value
	place []int32   // by row: the place of its slack, ^j when the row is tight[j]

	tight   []int32     // the rows that are used up
	inverse [][]float64 // by tight row: its column of the inverse, by place
	price   []float64   // by tight row: what one more unit of it is worth

	d, y   []float64 // scratch: the entering column in terms of the basis; prices, all zero between uses
	pivots int
	spent  float64 // on pivots so far, in multiplications
	limit  float64 // solve gives up when so much is spent; 0: never
}

const (
	perturbation = 1e-7
	smallPrice   = 1e-10 // a gain below it is none
	smallPivot   = 1e-8  // a pivot below it is none
	stallPivots  = 50    // so many pivots without a gain, and Bland's rule begins
	refreshAfter = 600   // pivots between two inversions from scratch
)

func newMaster(caps []float64) *master {
	m := &master{caps: caps, d: make([]float64, len(caps)), y: make([]float64, len(caps))}
	m.reset()
	return m
}

// reset puts every row back to slack. The columns stay known.
func (m *master) reset() {
	rows := len(m.caps)
	m.basic, m.place, m.x = make([]int32, rows), make([]int32, rows), make([]float64, rows)
	m.tight, m.inverse, m.price = nil, nil, nil
	for r := range m.basic {
		m.basic[r], m.place[r] = ^int32(r), int32(r)
		m.x[r] = m.capacity(r)
	}
	clear(m.used)
}

// capacity is the capacity of row r, made a little larger.
func (m *master) capacity(r int) float64 {
	// Multiples of the golden ratio: spread evenly, and never in step.
	part := float64(uint32(r+1)*2654435769) / (1 << 32)
	return m.caps[r] * (1 + float64(perturbation*part))
}

// clone returns a copy that shares the columns, and nothing that changes.
func (m *master) clone() *master {
	c := *m
	c.cols, c.used = slices.Clone(m.cols), slices.Clone(m.used)
	c.basic, c.x, c.place = slices.Clone(m.basic), slices.Clone(m.x), slices.Clone(m.place)
	c.tight, c.price = slices.Clone(m.tight), slices.Clone(m.price)
	c.inverse = make([][]float64, len(m.inverse))
	for j, col := range m.inverse {
		c.inverse[j] = slices.Clone(col)
	}
	c.d, c.y = make([]float64, len(m.caps)), make([]float64, len(m.caps))
	return &c
}

// add makes a column known and returns its number.
func (m *master) add(c *column) int {
	m.cols = append(m.cols, c)
	m.used = append(m.used, false)
	return len(m.cols) - 1
}

// forget drops a column that is not in use.
func (m *master) forget(k int) {
	if !m.used[k] {
		m.cols[k] = nil
	}
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
	for i, r := range m.tight {
		y[r] = max(0, m.price[i])
	}
}

// gain is what one unit of the rate of c adds to the value.
func (m *master) gain(c *column, y []float64) float64 {
	sum := 1.0
	for i, r := range c.rows {
		sum -= float64(c.load[i] * y[r])
	}
	return sum
}

// solve moves to the best solution with the columns that are known, and
// reports whether it got there within so many pivots.
func (m *master) solve(pivots int) bool {
	y := m.y
	stalled := 0
	for range pivots {
		if m.limit > 0 && m.spent > m.limit {
			return false
		}
		m.spent += float64(len(m.caps) * (len(m.tight) + 2))
		bland := stalled > stallPivots
		entering, gain := m.entering(y, bland)
		if gain <= smallPrice {
			return true
		}
		step, ok := m.pivot(entering, gain, bland)
		if !ok {
			return false // the figures have gone bad; reset could help, the last solution is good
		}
		if stalled++; step*gain > 0 {
			stalled = 0
		}
	}
	return false
}

// entering returns the variable outside the basis that gains the most; by
// Bland's rule the first that gains anything.
func (m *master) entering(y []float64, bland bool) (variable int32, gain float64) {
	first := int32(len(m.cols) + len(m.caps))
	for i, r := range m.tight {
		y[r] = m.price[i]
		if p := -m.price[i]; p > smallPrice && (bland && r < first || !bland && p > gain) {
			variable, gain, first = ^r, p, r
		}
	}
	if !bland || gain == 0 {
		for k, c := range m.cols {
			if c == nil || m.used[k] {
				continue
			}
			if p := m.gain(c, y); p > gain {
				variable, gain = int32(k), p
				if bland && p > smallPrice {
					break
				}
			}
		}
	}
	for _, r := range m.tight {
		y[r] = 0
	}
	return variable, gain
}

// pivot brings a variable into the basis, and returns its value there. It
// reports false, and changes nothing, when no place limits it.
func (m *master) pivot(entering int32, gain float64, bland bool) (step float64, ok bool) {
	m.express(entering)
	out := m.leaving(bland)
	if out < 0 {
		return 0, false
	}
	step = max(0, m.x[out]/m.d[out])
	m.exchange(entering, out, step, gain)
	if m.pivots++; m.pivots%refreshAfter == 0 {
		m.refresh()
	}
	return step, true
}

// express writes the variable's column, in terms of the basis, to d.
func (m *master) express(variable int32) {
	clear(m.d)
	if variable < 0 {
		m.accumulate(^variable, 1)
		return
	}
	c := m.cols[variable]
	for i, r := range c.rows {
		m.accumulate(r, c.load[i])
	}
}

func (m *master) accumulate(r int32, load float64) {
	if p := m.place[r]; p >= 0 {
		m.d[p] += load
		return
	}
	for i, v := range m.inverse[^m.place[r]] {
		m.d[i] += float64(load * v)
	}
}

// leaving returns the place whose variable is the first to reach zero, -1 when
// none does. Of equals it takes the largest pivot, by Bland's rule the lowest
// variable.
func (m *master) leaving(bland bool) int {
	out, best := -1, 0.0
	for i, d := range m.d {
		if d <= smallPivot {
			continue
		}
		ratio := max(0, m.x[i]) / d
		better := out < 0 || ratio < best
		if out >= 0 && ratio == best {
			better = d > m.d[out]
			if bland {
				better = m.order(i) < m.order(out)
			}
		}
		if better {
			out, best = i, ratio
		}
	}
	return out
}

// order numbers the variables: the slacks, then the columns.
func (m *master) order(place int) int {
	if v := m.basic[place]; v >= 0 {
		return len(m.caps) + int(v)
	}
	return int(^m.basic[place])
}

// exchange puts the entering variable in place out, at the value step.
func (m *master) exchange(entering int32, out int, step, gain float64) {
	for i, d := range m.d {
		m.x[i] -= float64(step * d)
	}
	m.x[out] = step
	if entering < 0 {
		m.untighten(^entering, out)
	} else {
		m.used[entering] = true
	}
	pivot := m.d[out]
	for j, col := range m.inverse {
		factor := col[out] / pivot
		if factor == 0 {
			continue
		}
		for i, d := range m.d {
			col[i] -= float64(factor * d)
		}
		col[out] = factor
		m.price[j] += float64(gain * factor)
	}
	if v := m.basic[out]; v >= 0 {
		m.used[v] = false
	} else {
		m.tighten(^v, out, gain)
	}
	m.basic[out] = entering
}

// untighten gives row r its slack back, in place out.
func (m *master) untighten(r int32, out int) {
	j, last := ^m.place[r], len(m.tight)-1
	m.tight[j], m.price[j], m.inverse[j] = m.tight[last], m.price[last], m.inverse[last]
	m.place[m.tight[j]] = ^j
	m.tight, m.price, m.inverse = m.tight[:last], m.price[:last], m.inverse[:last]
	m.place[r] = int32(out)
}

// tighten takes the slack of row r out of the basis, where it was in place out.
func (m *master) tighten(r int32, out int, gain float64) {
	col := make([]float64, len(m.caps))
	pivot := m.d[out]
	for i, d := range m.d {
		if d != 0 {
			col[i] = -d / pivot
		}
	}
	col[out] = 1 / pivot
	m.tight = append(m.tight, r)
	m.inverse = append(m.inverse, col)
	m.price = append(m.price, gain/pivot)
	m.place[r] = ^int32(len(m.tight) - 1)
}
