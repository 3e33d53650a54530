package main

import (
	"strings"

	"github.com/treerun/treerun/scripts/internal/results"
)

// record is all that one-host.sh measured.
type record struct{ *results.Record }

func parse(text []byte) (record, error) {
	r, err := results.Parse(text)
	return record{r}, err
}

// cell returns the median over the repetitions of one figure, NaN where there is
// none.
func (r record) cell(part, op string, np int, bytes int64, who string) float64 {
	return results.MedianOf(r.of(part, op, np, func(f *results.Figure) bool { return f.Bytes == bytes && f.Who == who }))
}

// of returns the figures of a part, operation and number of ranks for which keep holds.
func (r record) of(part, op string, np int, keep func(*results.Figure) bool) []*results.Figure {
	return r.Pick(func(f *results.Figure) bool { return f.Part == part && f.Op == op && f.NP == np && keep(f) })
}

func everything(*results.Figure) bool { return true }

// sizes returns the sizes of a part and operation, ascending.
func (r record) sizes(part, op string, np int) []int64 {
	return results.Distinct(r.of(part, op, np, everything), func(f *results.Figure) int64 { return f.Bytes })
}

// ranks returns the numbers of ranks of a part, ascending.
func (r record) ranks(part string) []int {
	return results.Distinct(r.Pick(func(f *results.Figure) bool { return f.Part == part }), func(f *results.Figure) int { return f.NP })
}

// best returns the smallest figure of the peers, and whose it is; NaN and "" where
// there is none.
func (r record) best(part, op string, np int, bytes int64) (float64, string) {
	peers := results.Distinct(r.of(part, op, np, peer), func(f *results.Figure) string { return f.Who })
	return results.Least(peers, func(who string) float64 { return r.cell(part, op, np, bytes, who) })
}

// peer tells whether a figure is not treerun's.
func peer(f *results.Figure) bool { return !strings.HasPrefix(f.Who, "treerun") }
