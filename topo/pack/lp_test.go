package pack

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A solution is right when it overbooks nothing, and under prices of the same worth no column pays: each side proves
// the other.
func TestMasterIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawProgram(t)
		if !m.solve(2000) {
			t.Fatal("not solved")
		}
		checkOptimal(t, m)
		// More columns, from where it stands.
		for range rapid.IntRange(0, 4).Draw(t, "more") {
			m.add(drawColumn(t, len(m.caps)))
		}
		if !m.solve(2000) {
			t.Fatal("not solved with more columns")
		}
		checkOptimal(t, m)
		copied := m.clone()
		copied.add(drawColumn(t, len(m.caps)))
		copied.solve(2000)
		checkOptimal(t, copied)
		checkOptimal(t, m)
	})
}

func drawProgram(t *rapid.T) *master {
	rows := rapid.IntRange(1, 12).Draw(t, "rows")
	caps := make([]float64, rows)
	for r := range caps {
		caps[r] = float64(rapid.IntRange(1, 4).Draw(t, "capacity")) // many ties
	}
	m := newMaster(caps, work)
	for range rapid.IntRange(1, 25).Draw(t, "columns") {
		m.add(drawColumn(t, rows))
	}
	return m
}

func drawColumn(t *rapid.T, rows int) *column {
	list := rapid.SliceOfNDistinct(rapid.IntRange(0, rows-1), 1, rows, rapid.ID).Draw(t, "column")
	slices.Sort(list)
	c := &column{}
	for _, r := range list {
		c.rows = append(c.rows, int32(r))
		c.load = append(c.load, float64(rapid.IntRange(1, 3).Draw(t, "load")))
	}
	return c
}

func checkOptimal(t *rapid.T, m *master) {
	t.Helper()
	rates := m.solution()
	sum, worth := 0.0, 0.0
	for k, r := range rates {
		if r < 0 || r > 0 && !m.used[k] {
			t.Fatalf("column %d has rate %v, used %v", k, r, m.used[k])
		}
		sum += r
	}
	for r, l := range loads(rates, m.cols, len(m.caps)) {
		if l > m.caps[r]*(1+1e-12) {
			t.Fatalf("row %d carries %v of %v", r, l, m.caps[r])
		}
	}
	price := make([]float64, len(m.caps))
	m.prices(price)
	for r, y := range price {
		if y < 0 {
			t.Fatalf("row %d has price %v", r, y)
		}
		worth += y * m.caps[r]
	}
	for k, c := range m.cols {
		if g := c.gain(price); g > 1e-8 {
			t.Fatalf("column %d would gain %v", k, g)
		}
	}
	if !about(sum, worth) {
		t.Fatalf("the rates sum to %v, the prices prove %v", sum, worth)
	}
}

// Capacities that differ by ten orders of magnitude.
func TestMasterScales(t *testing.T) {
	m := newMaster([]float64{1e-5, 1, 1e5}, work)
	a := m.add(&column{rows: []int32{0}, load: []float64{1}})
	b := m.add(&column{rows: []int32{0, 1}, load: []float64{1, 1}})
	c := m.add(&column{rows: []int32{1, 2}, load: []float64{1, 2}})
	d := m.add(&column{rows: []int32{2}, load: []float64{1}})
	m.solve(100)
	rates := m.solution()
	// Of row 2 column d makes more than c; b can fill the share of a just as well.
	if got, want := rates[a]+rates[b]+rates[c]+rates[d], 1e-5+1e5; !about(got, want) {
		t.Errorf("rates %v, want a sum of %v", rates, want)
	}
	if !about(rates[a]+rates[b], 1e-5) {
		t.Errorf("row 0 carries %v of 1e-5", rates[a]+rates[b])
	}
}
