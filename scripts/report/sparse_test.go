//go:build linux

package main

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// Lie selects the rows of an overlap.
func (v view) Lie(overlap string) view { v.Overlap = overlap; return v }

// At selects the rows of a density.
func (v view) At(density float64) view { v.Density = density; return v }

// Passing selects the rows in place, or not in place.
func (v view) Passing(pass string) view { v.Pass = pass; return v }

// Each returns the rows of each density, in decreasing order.
func (v view) Each() []view {
	list := split(v, func(k *filter) *float64 { return &k.Density })
	slices.Reverse(list)
	return list
}

// Dense returns the time of a dense AllReduce of the same ranks.
func (v view) Dense(who string) float64 { return v.Lie("").At(0).Of(who) }

// Peers returns the best time of the MPIs.
func (v view) Peers() float64 { return v.Lie("").At(0).Least(mpiNames...).Us }

// Sparse returns the attributes of the tensors of the first row.
func (v view) Sparse() *sparse { return v.rowsOf()[0].Sparse }

// SentMB returns the maximum that a rank sent, in megabytes.
func (v view) SentMB() float64 { return float64(v.Sparse().Sent) / 1e6 }

// Forms returns the forms that the ranks can choose, in addition to the dense plan.
func (v view) Forms() []string {
	if strings.HasPrefix(v.Part, "1x") {
		return forms(1)
	}
	return forms(hosts)
}

// Search returns the time that the slowest rank took to find the elements that are not zero.
func (v view) Search() float64 {
	return v.rowsOf().median(func(r *row) float64 { return r.Sparse.FindUs })
}

// Form returns the chosen form.
func (v view) Form() string {
	return strings.Join(distinct(v.By("price").rowsOf(), func(r *row) string { return r.Sparse.Form }), ", ")
}

// Choice returns the time of the fastest form, including the dense plan, divided by that of the chosen form; NaN if
// fewer than three were measured by themselves.
func (v view) Choice() float64 {
	times := map[string]float64{"dense": v.Dense("plain")}
	for _, who := range forms(1) {
		times[who] = v.Of(who)
	}
	maps.DeleteFunc(times, func(_ string, us float64) bool { return !known(us) })
	chosen, measured := times[v.Form()]
	if !measured || len(times) < 3 {
		return math.NaN()
	}
	return slices.Min(slices.Collect(maps.Values(times))) / chosen
}
