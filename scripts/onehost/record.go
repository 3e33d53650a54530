package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// figure is one line of the record: what one run of a benchmark found.
type figure struct {
	part  string // of one-host.sh: sweep, latency, ...
	np    int
	op    string // collective, or what was measured
	bytes int64
	who   string  // implementation, with its setting
	value float64 // us, where the part has no other unit
	away  float64 // cores that others used meanwhile
	plan  string  // of treerun
	share float64 // of the limit that treerun bench measured, NaN: not known
}

// fact is a line about the machine or the run.
type fact struct{ name, value string }

// record is all that one-host.sh measured.
type record struct {
	figures []figure
	facts   []fact
}

const (
	columns   = 10
	maxRecord = 64 << 20 // bytes
	maxRanks  = 1 << 16
	maxBytes  = 1 << 50

	leastValue, mostValue = 1e-6, 1e12 // beyond them it is no time of ours, and no axis holds it
)

// parse reads a record: lines of ten columns, part, repetition, np, operation,
// bytes, implementation, value, away, plan and share, and "# name<TAB>value".
func parse(text []byte) (*record, error) {
	if len(text) > maxRecord {
		return nil, fmt.Errorf("the record has %d bytes, more than %d: is it one of one-host.sh?", len(text), maxRecord)
	}
	r := &record{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		s := strings.TrimRight(string(line), "\r\n")
		if rest, ok := strings.CutPrefix(s, "# "); ok {
			name, value, _ := strings.Cut(rest, "\t")
			r.facts = append(r.facts, fact{name, value})
			continue
		}
		f, err := parseFigure(strings.Split(s, "\t"))
		if err != nil {
			return nil, fmt.Errorf("line %d of the record: %w (measure again, or remove the line)", number, err)
		}
		r.figures = append(r.figures, f)
	}
	return r, nil
}

func parseFigure(cells []string) (figure, error) {
	if len(cells) != columns {
		return figure{}, fmt.Errorf("%d columns, want %d", len(cells), columns)
	}
	f := figure{part: cells[0], op: cells[3], who: cells[5], plan: cells[8], share: math.NaN()}
	var err error
	if f.np, err = strconv.Atoi(cells[2]); err != nil || f.np < 1 || f.np > maxRanks {
		return f, fmt.Errorf("np is %q, want 1 to %d", cells[2], maxRanks)
	}
	if f.bytes, err = strconv.ParseInt(cells[4], 10, 64); err != nil || f.bytes < 0 || f.bytes > maxBytes {
		return f, fmt.Errorf("bytes is %q, want 0 to %d", cells[4], int64(maxBytes))
	}
	if f.value, err = strconv.ParseFloat(cells[6], 64); err != nil || !(f.value >= leastValue && f.value <= mostValue) {
		return f, fmt.Errorf("value is %q, want %g to %g", cells[6], leastValue, mostValue)
	}
	if f.away, err = strconv.ParseFloat(cells[7], 64); err != nil || !(f.away >= 0) || math.IsInf(f.away, 0) {
		return f, fmt.Errorf("the cores that others used are %q, want a number from 0 on", cells[7])
	}
	if cells[9] != "-" {
		if f.share, err = strconv.ParseFloat(cells[9], 64); err != nil || !(f.share >= 0) || math.IsInf(f.share, 0) {
			return f, fmt.Errorf("share is %q, want - or a number from 0 on", cells[9])
		}
	}
	return f, nil
}

// pick returns the figures for which keep holds.
func (r *record) pick(keep func(*figure) bool) []figure {
	var list []figure
	for i := range r.figures {
		if keep(&r.figures[i]) {
			list = append(list, r.figures[i])
		}
	}
	return list
}

// cell returns the median over the repetitions of one figure, NaN where there is
// none.
func (r *record) cell(part, op string, np int, bytes int64, who string) float64 {
	return median(values(r.pick(func(f *figure) bool {
		return f.part == part && f.op == op && f.np == np && f.bytes == bytes && f.who == who
	})))
}

// implementations returns who took part in a part and operation, in order of name.
func (r *record) implementations(part, op string, np int) []string {
	return distinct(r.pick(func(f *figure) bool { return f.part == part && f.op == op && f.np == np }), func(f *figure) string { return f.who })
}

// sizes returns the sizes of a part and operation, ascending.
func (r *record) sizes(part, op string, np int) []int64 {
	return distinct(r.pick(func(f *figure) bool { return f.part == part && f.op == op && f.np == np }), func(f *figure) int64 { return f.bytes })
}

// ranks returns the numbers of ranks of a part, ascending.
func (r *record) ranks(part string) []int {
	return distinct(r.pick(func(f *figure) bool { return f.part == part }), func(f *figure) int { return f.np })
}

// least returns the smallest figure of those implementations that want names,
// and whose it is; NaN and "" where there is none.
func (r *record) least(part, op string, np int, bytes int64, want func(string) bool) (float64, string) {
	best, whose := math.NaN(), ""
	for _, who := range r.implementations(part, op, np) {
		if !want(who) {
			continue
		}
		if v := r.cell(part, op, np, bytes, who); v < best || math.IsNaN(best) && !math.IsNaN(v) {
			best, whose = v, who
		}
	}
	return best, whose
}

// peer tells whether an implementation is not treerun.
func peer(who string) bool { return !strings.HasPrefix(who, "treerun") }

func distinct[T int | int64 | string](list []figure, of func(*figure) T) []T {
	var all []T
	for i := range list {
		all = append(all, of(&list[i]))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func values(list []figure) []float64 {
	all := make([]float64, len(list))
	for i, f := range list {
		all[i] = f.value
	}
	return all
}

// median is NaN for an empty list.
func median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(list))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// geometric returns the geometric mean of what is known, NaN when nothing is.
func geometric(list []float64) float64 {
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
