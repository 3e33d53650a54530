// Package results is what the programs that make the pages of docs/results have
// in common: the records of what was measured, the words and tables of a page, and
// what is said of the machine. Only programs below scripts import it.
package results

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
)

// Fact is a line about the machine or the run.
type Fact struct{ Name, Value string }

// Figure is one line of a record of columns: what one run of a benchmark found.
type Figure struct {
	Part  string // of what is measured, or the network
	Rep   int    // repetition, from 1 on
	NP    int
	Op    string // collective, or what was measured
	Bytes int64
	Who   string  // implementation, with its setting
	Value float64 // microseconds, where the part has no other unit
	Away  float64 // cores that others used meanwhile
	Plan  string  // of treerun
	Share float64 // of the limit that treerun bench measured; NaN: not known
}

// Record is all that was measured, in the order of its lines.
type Record struct {
	Figures []Figure
	Facts   []Fact
}

const (
	maxRecord = 64 << 20 // bytes
	maxCount  = 1 << 16
	maxBytes  = 1 << 50

	leastValue, mostValue = 1e-6, 1e12 // beyond them it is no time of ours, and no axis holds it
)

// Lines gives each line of a record to take, without its end. It refuses more than
// 64 MiB; an error of take comes back with the number of the line.
func Lines(text []byte, take func(line []byte) error) error {
	if len(text) > maxRecord {
		return fmt.Errorf("%d bytes, more than %d: is it a record?", len(text), maxRecord)
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if err := take(bytes.TrimRight(line, "\r\n")); err != nil {
			return fmt.Errorf("line %d of the record: %w (measure again, or remove the line)", number, err)
		}
	}
	return nil
}

// Parse reads a record: lines of nine or ten columns, which are the fields of a
// Figure, and facts, "# name<TAB>value". A plan or share that is not known is "-".
func Parse(text []byte) (*Record, error) {
	r := &Record{}
	err := Lines(text, func(line []byte) error {
		if rest, ok := strings.CutPrefix(string(line), "# "); ok {
			name, value, _ := strings.Cut(rest, "\t")
			r.Facts = append(r.Facts, Fact{name, value})
			return nil
		}
		f, err := parseFigure(strings.Split(string(line), "\t"))
		r.Figures = append(r.Figures, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func parseFigure(cells []string) (f Figure, err error) {
	if len(cells) != 9 && len(cells) != 10 {
		return f, fmt.Errorf("%d columns, want 9 or 10", len(cells))
	}
	number := func(name, cell string, least, most float64) float64 {
		v, bad := strconv.ParseFloat(cell, 64)
		if err == nil && (bad != nil || !(v >= least && v <= most)) {
			err = fmt.Errorf("%s is %q, want a number from %g to %g", name, cell, least, most)
		}
		return v
	}
	whole := func(name, cell string, least, most int64) int64 {
		v, bad := strconv.ParseInt(cell, 10, 64)
		if err == nil && (bad != nil || v < least || v > most) {
			err = fmt.Errorf("%s is %q, want a whole number from %d to %d", name, cell, least, most)
		}
		return v
	}
	f = Figure{
		Part: cells[0], Rep: int(whole("the repetition", cells[1], 1, maxCount)), NP: int(whole("np", cells[2], 1, maxCount)),
		Op: cells[3], Bytes: whole("bytes", cells[4], 0, maxBytes), Who: cells[5],
		Value: number("the value", cells[6], leastValue, mostValue), Away: number("the cores that others used", cells[7], 0, mostValue),
		Plan: cells[8], Share: math.NaN(),
	}
	if len(cells) == 10 && cells[9] != "-" {
		f.Share = number("the share", cells[9], 0, mostValue)
	}
	return f, err
}

// Line returns f as a line of a record, of nine columns.
func (f *Figure) Line() string {
	plan := f.Plan
	if plan == "" {
		plan = "-"
	}
	return fmt.Sprintf("%s\t%d\t%d\t%s\t%d\t%s\t%.6g\t%.2f\t%s\n", f.Part, f.Rep, f.NP, f.Op, f.Bytes, f.Who, f.Value, f.Away, plan)
}

// Line returns f as a line of a record of columns.
func (f Fact) Line() string {
	return fmt.Sprintf("# %s\t%s\n", f.Name, strings.ReplaceAll(f.Value, "\n", " "))
}

// Pick returns the figures for which keep holds. They belong to r.
func (r *Record) Pick(keep func(*Figure) bool) []*Figure {
	var list []*Figure
	for i := range r.Figures {
		if keep(&r.Figures[i]) {
			list = append(list, &r.Figures[i])
		}
	}
	return list
}

// Distinct returns what of finds in the figures, ascending, each once.
func Distinct[T int | int64 | string](list []*Figure, of func(*Figure) T) []T {
	var all []T
	for _, f := range list {
		all = append(all, of(f))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// MedianOf returns the median of the figures' values, NaN if there are none.
func MedianOf(list []*Figure) float64 {
	all := make([]float64, len(list))
	for i, f := range list {
		all[i] = f.Value
	}
	return Median(all)
}

// Least returns the smallest value that one of names has, and whose it is: the
// first of those that have it. Where none is known, it is NaN and "".
func Least(names []string, value func(name string) float64) (float64, string) {
	best, whose := math.NaN(), ""
	for _, name := range names {
		if v := value(name); v < best || math.IsNaN(best) && !math.IsNaN(v) {
			best, whose = v, name
		}
	}
	return best, whose
}

// Median returns the median of list, NaN if it is empty.
func Median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return numbers.Median(list)
}

// Geometric returns the geometric mean of what is known, NaN when nothing is.
func Geometric(list []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range list {
		if !math.IsNaN(v) {
			sum, n = sum+math.Log(v), n+1
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return math.Exp(sum / float64(n))
}
