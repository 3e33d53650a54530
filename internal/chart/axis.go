package chart

import (
	"fmt"
	"math"
	"strconv"
)

// axis is the values along one, and the pixels of its ends.
type axis struct {
	least, most float64
	log         bool
	from, to    float64
}

// at returns the place of a value.
func (a *axis) at(v float64) float64 {
	part := (v - a.least) / (a.most - a.least)
	if a.log {
		part = math.Log(v/a.least) / math.Log(a.most/a.least)
	}
	return a.from + float64(part*(a.to-a.from))
}

// widen gives an axis room around a single value, and some range where there is
// nothing to show.
func (a *axis) widen() {
	switch {
	case a.least > a.most:
		a.least, a.most = 1, 1024
	case a.most < 2*a.least:
		a.least, a.most = a.least/2, a.most*2
	}
}

// tick is a place of an axis; some have no label.
type tick struct {
	Value float64
	Label string
}

// powers puts ticks at powers of 2, with labels as sizes are written on the
// command line, as many as fit.
func powers(least, most float64) (list []tick) {
	const labels = 9
	first, last := int(math.Ceil(math.Log2(least)-1e-9)), int(math.Floor(math.Log2(most)+1e-9))
	step := max(1, (last-first+labels-1)/labels)
	for e := first; e <= last; e++ {
		t := tick{Value: math.Ldexp(1, e)}
		if (e-first)%step == 0 && e >= 0 {
			unit := min(e/10, 4)
			t.Label = fmt.Sprint(math.Ldexp(1, e-10*unit), []string{"", "K", "M", "G", "T"}[unit])
		}
		list = append(list, t)
	}
	return list
}

// decades puts a tick at every power of ten, labelled where there is room, and small ones
// between, with labels at 2 and 5 where there are few powers of ten.
func decades(least, most float64) (list []tick) {
	const labels = 8
	step := math.Ceil(math.Log10(most/least) / labels)
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		for k := 1.0; k < 10; k++ {
			v := k * math.Pow(10, e)
			if v < least*(1-1e-9) || v > most*(1+1e-9) {
				continue
			}
			t := tick{Value: v}
			if k == 1 && math.Mod(e, step) == 0 || most/least < 100 && (k == 2 || k == 5) {
				t.Label = short(v)
			}
			list = append(list, t)
		}
	}
	return list
}

// steps puts labelled ticks from 0 on, at most seven.
func steps(_, most float64) (list []tick) {
	step := math.Pow(10, math.Floor(math.Log10(most/6)))
	for _, k := range []float64{1, 2, 5, 10} {
		if most <= 6*k*step {
			step *= k
			break
		}
	}
	for i := 0.0; i*step <= most; i++ {
		list = append(list, tick{i * step, short(i * step)})
	}
	return list
}

// short writes 1000000 as 1M.
func short(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G", "T"} {
		if v >= 1e3 {
			v, unit = v/1e3, u
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + unit
}
