//go:build linux

package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// view is the data for the template of a page from a record: the rows that a key selects. Its methods narrow the
// selection, and return figures, which are NaN if they are not known.
type view struct {
	*record
	filter
	also  string  // a part whose peers also count
	Title string  // of a row of a table
	Goal  float64 // share of the limit that treerun must reach; 0: no goal
}

// Named sets the title of a row of a table.
func (v view) Named(title string) view { v.Title = title; return v }

// In selects the rows of a part.
func (v view) In(part string) view { v.Part = part; return v }

// With adds the peers of another part.
func (v view) With(part string) view { v.also = part; return v }

// By selects the rows of an implementation.
func (v view) By(who string) view { v.Who = who; return v }

// For selects the rows of a collective.
func (v view) For(op string) view { v.Op = op; return v }

// rowsOf returns the rows.
func (v view) rowsOf() rows { return v.rows.of(v.filter) }

// Any reports whether there are rows.
func (v view) Any() bool { return len(v.rowsOf()) > 0 }

// Sizes returns the rows of each size, ascending.
func (v view) Sizes() []view { return split(v, func(k *filter) *int64 { return &k.Bytes }) }

// From returns the rows of each size of at least the given number of bytes.
func (v view) From(bytes int) []view {
	return slices.DeleteFunc(v.Sizes(), func(s view) bool { return s.Bytes < int64(bytes) })
}

// Ranks returns the rows of each number of ranks, ascending.
func (v view) Ranks() []view { return split(v, func(k *filter) *int { return &k.NP }) }

// Parts returns the rows of each part, by name.
func (v view) Parts() []view { return split(v, func(k *filter) *string { return &k.Part }) }

// Ops returns the rows of each collective, by name.
func (v view) Ops() []view { return split(v, func(k *filter) *string { return &k.Op }) }

// Whose returns the rows of each implementation, by name.
func (v view) Whose() []view { return split(v, func(k *filter) *string { return &k.Who }) }

// split returns the rows by the value of a field.
func split[T cmp.Ordered](v view, field func(*filter) *T) []view {
	var list []view
	for _, x := range distinct(v.rowsOf(), func(r *row) T {
		a := r.filter()
		return *field(&a)
	}) {
		*field(&v.filter) = x
		list = append(list, v)
	}
	return list
}

// Us returns the median of the rows' values, in microseconds unless the part has another unit.
func (v view) Us() float64 { return v.rowsOf().median((*row).value) }

// Of returns Us of one implementation.
func (v view) Of(who string) float64 { return v.By(who).Us() }

// Plans returns the plans of treerun's rows.
func (v view) Plans() string {
	v.Who = cmp.Or(v.Who, ownChoice)
	return strings.Join(distinct(v.rowsOf(), func(r *row) string { return r.Plan }), ", ")
}

// Limit returns the median of the least times that treerun bench found possible and printed with its rows.
func (v view) Limit() float64 {
	v.Who = cmp.Or(v.Who, ownChoice)
	return slices.DeleteFunc(v.rowsOf(), func(r *row) bool { return r.limit() == 0 }).median((*row).limit)
}

// Predicted returns the median of the times that treerun predicted.
func (v view) Predicted() float64 { return v.rowsOf().median((*row).predicted) }

// Wanted returns the sizes of at least the given number of bytes, for which treerun must reach a share of the limit.
func (v view) Wanted(goal float64, from int) []view {
	v.Goal = goal
	return v.From(from)
}

// best is the smallest value of some implementations, with the name of its implementation.
type best struct {
	Us  float64
	Who string
}

// Best returns the smallest value of the implementations other than treerun.
func (v view) Best() best {
	v.Who = ""
	var peers []string
	for _, w := range v.Whose() {
		if !strings.HasPrefix(w.Who, ownChoice) {
			peers = append(peers, w.Who)
		}
	}
	b := v.Least(peers...)
	if v.also != "" {
		if other := v.In(v.also).With("").Best(); other.Us < b.Us || math.IsNaN(b.Us) {
			return other
		}
	}
	return b
}

// Least returns the smallest value of the given implementations: the first of those that have it.
func (v view) Least(who ...string) best {
	b := best{Us: math.NaN()}
	for _, name := range who {
		if us := v.Of(name); us < b.Us || math.IsNaN(b.Us) && !math.IsNaN(us) {
			b = best{us, name}
		}
	}
	return b
}

// Over returns the best peer's value divided by that of one implementation.
func (v view) Over(who string) float64 { return v.Best().Us / v.Of(who) }

// Columns returns the implementations that have rows, in the order of columns and legends.
func (v view) Columns() []implementation {
	return slices.DeleteFunc(slices.Clone(implementations), func(x implementation) bool { return !v.By(x.Name).Any() })
}
