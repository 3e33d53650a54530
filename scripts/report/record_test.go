//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
)

const (
	maxRecord = 64 << 20 // bytes
	maxCount  = 1 << 16
	maxBytes  = 1 << 50

	minValue, maxValue = 1e-6, 1e12 // beyond them a value is no measured time, and no axis holds it
)

// value returns the time, or the figure.
func (r *row) value() float64 { return r.TimeUs + r.Figure }

// limit returns the least time that treerun bench found possible, 0 if it is not known.
func (r *row) limit() float64 {
	if r.FloorUs == 0 && r.Share != nil {
		return *r.Share * r.TimeUs
	}
	return r.FloorUs
}

// predicted returns the time that treerun predicted, NaN if it is not known.
func (r *row) predicted() float64 {
	if r.PredictedUs == nil {
		return math.NaN()
	}
	return *r.PredictedUs
}

func (r *row) check() error {
	within := func(v, least, most float64) bool { return v >= least && v <= most }
	switch {
	case r.Fact != "":
		return nil
	case r.Part == "" || r.Who == "" || r.Op == "":
		return errors.New("want a fact, or part, implementation and collective")
	case !within(float64(r.Rep), 1, maxCount) || !within(float64(r.NP), 1, maxCount) ||
		!within(float64(r.Bytes), 0, maxBytes):
		return fmt.Errorf("repetition %d, %d ranks, %d bytes", r.Rep, r.NP, r.Bytes)
	case r.Loss != nil && r.value() == 0: // no time counts
		return nil
	case !within(r.value(), minValue, maxValue) || min(r.TimeUs, r.Figure) != 0:
		return fmt.Errorf("time_us %v and figure %v, want one, from %g to %g", r.TimeUs, r.Figure, minValue, maxValue)
	}
	return nil
}

// parse parses a record. An error has the number of the line.
func parse(text []byte) (*record, error) {
	if len(text) > maxRecord {
		return nil, fmt.Errorf("%d bytes, more than %d: is it a record?", len(text), maxRecord)
	}
	r, number := &record{}, 0
	for line := range bytes.Lines(text) {
		number++
		v := &row{}
		if err := errors.Join(json.Unmarshal(line, v), v.check()); err != nil {
			return nil, fmt.Errorf("line %d of the record: %w (measure again, or remove the line)", number, err)
		}
		r.add(v)
	}
	return r, nil
}

func readRecord(file string) (*record, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r, err := parse(text)
	if err == nil && len(r.rows) == 0 {
		err = errors.New("nothing was measured")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// filter selects rows: an empty field selects those with any value.
type filter struct {
	key
	Overlap string // of sparse tensors
	Density float64
	Pass    string // "in place" or "not in place"
}

// filter returns the selection of rows like r.
func (r *row) filter() filter {
	a := filter{key: r.key, Pass: "not in place"}
	if r.InPlace {
		a.Pass = "in place"
	}
	if x := r.Sparse; x != nil {
		a.Overlap, a.Density = x.Overlap, x.Density
	}
	return a
}

// fits reports whether k selects rows of o.
func (k filter) fits(o filter) bool {
	return (k.Part == "" || k.Part == o.Part) && (k.Who == "" || k.Who == o.Who) && (k.Op == "" || k.Op == o.Op) &&
		(k.NP == 0 || k.NP == o.NP) && (k.Bytes == 0 || k.Bytes == o.Bytes) &&
		(k.Overlap == "" || k.Overlap == o.Overlap) && (k.Density == 0 || k.Density == o.Density) &&
		(k.Pass == "" || k.Pass == o.Pass)
}

// of returns the rows that k selects.
func (r rows) of(k filter) rows {
	var list rows
	for _, v := range r {
		if k.fits(v.filter()) {
			list = append(list, v)
		}
	}
	return list
}

// median returns the median of the values that of returns for the rows; NaN for no rows.
func (r rows) median(of func(*row) float64) float64 {
	var list []float64
	for _, v := range r {
		list = append(list, of(v))
	}
	return median(list)
}

// distinct returns the values that of returns for the rows, ascending, each once.
func distinct[T cmp.Ordered](list rows, of func(*row) T) []T {
	var all []T
	for _, v := range list {
		all = append(all, of(v))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// median returns NaN for an empty list.
func median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return numbers.Median(list)
}

// geometric returns the geometric mean of the known values, NaN if there is none.
func geometric(list []float64) float64 {
	sum, n := 0.0, 0.0
	for _, v := range list {
		if !math.IsNaN(v) {
			sum, n = sum+math.Log(v), n+1
		}
	}
	return math.Exp(sum / n)
}
