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

// key says what a row measured. A key also asks for rows: with an empty field for
// those of any value.
type key struct {
	Part  string `json:"part,omitempty"` // of what is measured, the network, or the set of hosts
	Who   string `json:"who,omitempty"`  // implementation with its setting, algorithm, or form
	Op    string `json:"collective,omitempty"`
	NP    int    `json:"np,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`

	// Of sparse tensors, as add finds it in the row; Pass of all rows.
	Overlap string  `json:"-"`
	Density float64 `json:"-"`
	Pass    string  `json:"-"`
}

// row is one line of a record: a fact about the machine or the run, or a row as
// treerun bench --json prints it, with what was varied.
type row struct {
	Fact string `json:"fact,omitempty"`
	Text string `json:"value,omitempty"`

	key
	Rep         int      `json:"rep,omitempty"` // repetition, from 1 on
	InPlace     bool     `json:"in_place,omitempty"`
	TimeUs      float64  `json:"time_us,omitempty"`
	Figure      float64  `json:"figure,omitempty"` // what is no time in microseconds, in the unit of the part
	Away        float64  `json:"away,omitempty"`   // cores that others used meanwhile
	Plan        string   `json:"plan,omitempty"`
	Share       *float64 `json:"limit_share,omitempty"` // of the limit that treerun bench measured
	FloorUs     float64  `json:"floor_us,omitempty"`
	PredictedUs *float64 `json:"predicted_us,omitempty"`
	Wrong       *int64   `json:"wrong,omitempty"` // elements; nil: nothing was compared
	Sparse      *sparse  `json:"sparse,omitempty"`
}

// sparse is what treerun bench says of a sparse AllReduce.
type sparse struct {
	Density float64 `json:"density"`
	Overlap string  `json:"overlap"`
	Form    string  `json:"form"`
	Union   float64 `json:"union_density"`
	Sent    int64   `json:"sent_bytes"`
	FindUs  float64 `json:"find_us"`
}

// rows are those of a record, in the order in which they were measured.
type rows []*row

// record is all that was measured.
type record struct {
	Facts []*row // of the machine and the run
	rows
}

const (
	maxRecord = 64 << 20 // bytes
	maxCount  = 1 << 16
	maxBytes  = 1 << 50

	minValue, maxValue = 1e-6, 1e12 // beyond them it is no time of ours, and no axis holds it
)

// value is the time, or the figure.
func (r *row) value() float64 { return r.TimeUs + r.Figure }

// limit is the least time that treerun bench found possible, 0 where it is not known.
func (r *row) limit() float64 {
	if r.FloorUs == 0 && r.Share != nil {
		return *r.Share * r.TimeUs
	}
	return r.FloorUs
}

func (r *row) check() error {
	within := func(v, least, most float64) bool { return v >= least && v <= most }
	switch {
	case r.Fact != "":
		return nil
	case r.Part == "" || r.Who == "" || r.Op == "":
		return errors.New("want a fact, or part, who and collective")
	case !within(float64(r.Rep), 1, maxCount) || !within(float64(r.NP), 1, maxCount) ||
		!within(float64(r.Bytes), 0, maxBytes):
		return fmt.Errorf("repetition %d, %d ranks, %d bytes", r.Rep, r.NP, r.Bytes)
	case !within(r.value(), minValue, maxValue) || min(r.TimeUs, r.Figure) != 0:
		return fmt.Errorf("time_us %v and figure %v, want one, from %g to %g", r.TimeUs, r.Figure, minValue, maxValue)
	}
	return nil
}

// add puts a row, or a fact, into the record.
func (r *record) add(v *row) {
	if v.Fact != "" {
		r.Facts = append(r.Facts, v)
		return
	}
	v.Pass = "not in place"
	if v.InPlace {
		v.Pass = "in place"
	}
	if x := v.Sparse; x != nil {
		v.Overlap, v.Density = x.Overlap, x.Density
	}
	r.rows = append(r.rows, v)
}

// fact notes a line about the machine or the run.
func (r *record) fact(name, format string, args ...any) {
	r.add(&row{Fact: name, Text: fmt.Sprintf(format, args...)})
}

// parse reads a record. An error has the number of the line.
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

// write puts the record into a file.
func (r *record) write(file string) error {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	for _, v := range slices.Concat(r.Facts, r.rows) {
		if err := out.Encode(v); err != nil {
			return err
		}
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// printed reads the rows that a benchmark has printed, treerun's or one of the peers'
// kit, among whatever else. Wrong elements are an error, and so are no rows at all.
func printed(out []byte) (rows, error) {
	var all rows
	for line := range bytes.Lines(out) {
		var v struct {
			row
			Kit string `json:"op"` // the kit's word for the collective
		}
		if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &v) != nil {
			continue
		}
		if v.Op == "" {
			v.Op = v.Kit
		}
		if v.TimeUs <= 0 || v.Op == "" {
			continue
		}
		if v.Wrong != nil && *v.Wrong > 0 {
			return nil, fmt.Errorf("%d wrong elements in %s of %d bytes", *v.Wrong, v.Op, v.Bytes)
		}
		all = append(all, &v.row)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no rows in %.200q", out)
	}
	return all, nil
}

// fits reports whether k asks for rows of o.
func (k key) fits(o key) bool {
	return (k.Part == "" || k.Part == o.Part) && (k.Who == "" || k.Who == o.Who) && (k.Op == "" || k.Op == o.Op) &&
		(k.NP == 0 || k.NP == o.NP) && (k.Bytes == 0 || k.Bytes == o.Bytes) &&
		(k.Overlap == "" || k.Overlap == o.Overlap) && (k.Density == 0 || k.Density == o.Density) &&
		(k.Pass == "" || k.Pass == o.Pass)
}

// of returns the rows that k asks for.
func (r rows) of(k key) rows {
	var list rows
	for _, v := range r {
		if k.fits(v.key) {
			list = append(list, v)
		}
	}
	return list
}

// median returns that of what of finds in the rows; NaN for none.
func (r rows) median(of func(*row) float64) float64 {
	var list []float64
	for _, v := range r {
		list = append(list, of(v))
	}
	return median(list)
}

// distinct returns what of finds in the rows, ascending, each once.
func distinct[T cmp.Ordered](list rows, of func(*row) T) []T {
	var all []T
	for _, v := range list {
		all = append(all, of(v))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// median is NaN for an empty list.
func median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return numbers.Median(list)
}

// geometric returns the geometric mean of what is known, NaN when nothing is.
func geometric(list []float64) float64 {
	sum, n := 0.0, 0.0
	for _, v := range list {
		if !math.IsNaN(v) {
			sum, n = sum+math.Log(v), n+1
		}
	}
	return math.Exp(sum / n)
}
