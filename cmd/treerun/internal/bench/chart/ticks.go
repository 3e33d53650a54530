package chart

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// powers puts ticks at powers of 2, with labels as sizes are written on the
// command line, as many as fit.
type powers struct{}

// Ticks implements plot.Ticker.
func (powers) Ticks(least, most float64) []plot.Tick {
	const labels = 9
	first, last := int(math.Ceil(math.Log2(least)-1e-9)), int(math.Floor(math.Log2(most)+1e-9))
	step := max(1, (last-first+labels-1)/labels)
	var list []plot.Tick
	for e := first; e <= last; e++ {
		tick := plot.Tick{Value: math.Ldexp(1, e)}
		if (e-first)%step == 0 && e >= 0 {
			size := cmdline.Size(tick.Value)
			tick.Label = size.String()
		}
		list = append(list, tick)
	}
	return list
}

// decades puts a labelled tick at every power of ten, and small ones between,
// with labels at 2 and 5 where there are few powers of ten.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(least, most float64) []plot.Tick {
	var list []plot.Tick
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		ten := math.Pow(10, e)
		for k := 1.0; k < 10; k++ {
			v := k * ten
			if v < least*(1-1e-9) || v > most*(1+1e-9) {
				continue
			}
			tick := plot.Tick{Value: v}
			if k == 1 || most/least < 100 && (k == 2 || k == 5) {
				tick.Label = strconv.FormatFloat(v, 'f', -1, 64)
			}
			list = append(list, tick)
		}
	}
	return list
}

// spaced keeps the labels of the vertical axis away from the ticks, also where
// the reader's font is a little wider.
type spaced struct{ plot.Ticker }

// Ticks implements plot.Ticker.
func (s spaced) Ticks(least, most float64) []plot.Tick {
	list := s.Ticker.Ticks(least, most)
	for i := range list {
		if list[i].Label != "" {
			list[i].Label += "  "
		}
	}
	return list
}
