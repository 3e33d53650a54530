package chart

import (
	"math"
	"strconv"
)

// axis is the range of values of one axis, and the pixels of its ends.
type axis struct {
	min, max float64
	log      bool
	from, to float64
}

// at returns the pixel of a value.
func (a *axis) at(v float64) float64 {
	part := (v - a.min) / (a.max - a.min)
	if a.log {
		part = math.Log(v/a.min) / math.Log(a.max/a.min)
	}
	return a.from + float64(part*(a.to-a.from))
}

// widen gives an axis room around a single value, and some range where there is no value.
func (a *axis) widen() {
	switch {
	case a.min > a.max:
		a.min, a.max = 1, 1024
	case a.max < 2*a.min:
		a.min, a.max = a.min/2, a.max*2
	}
}

// tick is a place of an axis; some have no label.
type tick struct {
	Value float64
	Label string
}

// powers puts ticks at powers of 2, with labels as sizes are written on the
// command line.
func powers(least, most float64) []tick { return logarithmic(least, most, 2, 1024, "KMGT") }

// decades puts a tick at every power of ten, and small ones between, with labels at 2 and 5
// where there are few powers of ten.
func decades(least, most float64) []tick { return logarithmic(least, most, 10, 1000, "kMGT") }

// logarithmic puts a tick at every power of a base, labeled where there is room, and small
// ones between.
func logarithmic(least, most, base, unit float64, units string) (list []tick) {
	const labels = 9
	powerOf := func(v float64) float64 { return math.Log(v) / math.Log(base) }
	first, step := math.Ceil(powerOf(least)-1e-9), math.Ceil(powerOf(most/least)/labels)
	for e := math.Floor(powerOf(least)); e <= math.Ceil(powerOf(most)); e++ {
		for k := 1.0; k < base; k++ {
			v := k * math.Pow(base, e)
			if v < least*(1-1e-9) || v > most*(1+1e-9) {
				continue
			}
			t := tick{Value: v}
			if k == 1 && math.Mod(e-first, step) == 0 || most/least < 100 && (k == 2 || k == 5) {
				t.Label = shortNumber(v, unit, units)
			}
			list = append(list, t)
		}
	}
	return list
}

// steps puts labeled ticks from 0 on, at most seven.
func steps(_, most float64) (list []tick) {
	step := math.Pow(10, math.Floor(math.Log10(most/6)))
	for _, k := range []float64{1, 2, 5, 10} {
		if most <= 6*k*step {
			step *= k
			break
		}
	}
	for i := 0.0; i*step <= most; i++ {
		list = append(list, tick{i * step, shortNumber(i*step, 1000, "kMGT")})
	}
	return list
}

// shortNumber writes 1000000 as 1M, with units each of which is the given multiple of the one before.
func shortNumber(v, unit float64, units string) string {
	name := ""
	for _, u := range units {
		if v >= unit {
			v, name = v/unit, string(u)
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + name
}
