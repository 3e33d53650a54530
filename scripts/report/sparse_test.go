package main

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// Lie asks for the rows of an overlap.
func (v view) Lie(overlap string) view { v.Overlap = overlap; return v }

// At asks for those of a density.
func (v view) At(density float64) view { v.Density = density; return v }

// Passing asks for those in place, or not in place.
func (v view) Passing(pass string) view { v.Pass = pass; return v }

// Each returns the rows of each density, falling.
func (v view) Each() []view {
	list := split(v, func(k *asked) *float64 { return &k.Density })
	slices.Reverse(list)
	return list
}

// Dense is the time of a dense AllReduce of the same ranks.
func (v view) Dense(who string) float64 { return v.Lie("").At(0).Of(who) }

// Peers is the best time of those of an MPI.
func (v view) Peers() float64 { return v.Lie("").At(0).Least(mpis...).Us }

// Sparse is what the first of the rows says of its tensors.
func (v view) Sparse() *sparse { return v.rowsOf()[0].Sparse }

// SentMB is the most that a rank sent, in megabytes.
func (v view) SentMB() float64 { return float64(v.Sparse().Sent) / 1e6 }

// Forms are those that the ranks can choose between, beside the dense plan.
func (v view) Forms() []string {
	if strings.HasPrefix(v.Part, "1x") {
		return forms(1)
	}
	return forms(hosts)
}

// Search is how long the slowest rank looked for what is not zero.
func (v view) Search() float64 {
	return v.rowsOf().median(func(r *row) float64 { return r.Sparse.FindUs })
}

// Form is the one that was chosen.
func (v view) Form() string {
	return strings.Join(distinct(v.By("price").rowsOf(), func(r *row) string { return r.Sparse.Form }), ", ")
}

// Choice is the time of the quickest form, the dense plan among them, over that of the form that
// was chosen; NaN where fewer than three were measured by themselves.
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
