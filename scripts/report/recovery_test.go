//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Losses returns the number of faults that met a process.
func (v view) Losses() (n int) {
	for _, r := range v.rowsOf() {
		if r.Loss != nil {
			n += r.Loss.Faults
		}
	}
	return n
}

// Jobs returns the number of rows.
func (v view) Jobs() int { return len(v.rowsOf()) }

// Verdicts returns the number of jobs whose verdict begins with a word, or of all that did wrong for "".
func (v view) Verdicts(word string) (n int) {
	for _, r := range v.rowsOf() {
		if r.Loss != nil && r.Loss.Verdict != "" && strings.HasPrefix(r.Loss.Verdict, word) {
			n++
		}
	}
	return n
}

// Other returns the number of verdicts that have no column of their own.
func (v view) Other() int {
	return v.Verdicts("") - v.Verdicts("wrong") - v.Verdicts("hangs") - v.Verdicts("leaves")
}

// Errors returns the median, the 99th percentile and the maximum of the times to the last error, in milliseconds.
func (v view) Errors() string { return v.percentiles(func(r *row) float64 { return r.Loss.ErrorUs }) }

// Sums returns those of the times to the next sum of the slowest rank.
func (v view) Sums() string { return v.percentiles(func(r *row) float64 { return r.TimeUs }) }

// Loads returns those of the load of the machine.
func (v view) Loads() string { return v.percentiles(func(r *row) float64 { return 1e3 * r.Loss.Load }) }

func (v view) percentiles(of func(*row) float64) string {
	var all []float64
	for _, r := range v.rowsOf() {
		if r.Loss != nil && of(r) > 0 {
			all = append(all, of(r)/1e3)
		}
	}
	if len(all) == 0 {
		return "-"
	}
	slices.Sort(all)
	return fmt.Sprintf("%s, %s, %s", number(all[len(all)/2]), number(all[len(all)*99/100]), number(all[len(all)-1]))
}

// The page counts faults and verdicts, and leaves out times that are not known.
func TestRecovery(t *testing.T) {
	r := recorded(t, "tcp 1 4 kill 0 shrink 5000", "tcp 2 4 kill 0 shrink 9000", "tcp 3 4 kill 0 shrink 0")
	for i, v := range r.rows {
		v.Loss = &loss{Faults: 1, ErrorUs: float64(1000 * i), Load: 12}
	}
	r.rows[2].Loss.Verdict = "hangs"
	has(t, pageOf(t, "recovery", r),
		"| shrink | kill | 3 | 3 | 2, 2, 2 | 9, 9, 9 | 1 |", "| tcp | 3 | 3 | 0 | 1 | 0 | 0 |")
}
