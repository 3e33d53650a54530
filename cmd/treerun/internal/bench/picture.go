//go:build linux

package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/chart"
	"github.com/treerun/treerun/internal/numbers"
)

// picture returns an SVG file of the rows, of which there is one at least: time and
// bus bandwidth over the size of the message, side by side.
func picture(rows []*Row) ([]byte, error) {
	time := chart.Panel{X: "message (bytes)", Y: "time (µs)", Sizes: true}
	busbw := chart.Panel{X: "message (bytes)", Y: "busbw (GB/s)", Sizes: true, Linear: true}
	floor, known := chart.Curve{Name: "limit of this machine", Limit: true}, true
	title := curveName(rows)
	for _, r := range rows {
		// Of rows in place and out of place only the latter are drawn.
		if r.Bytes == 0 || r.TimeUs <= 0 || r.InPlace && hasOutOfPlace(rows, r) {
			continue
		}
		x := float64(r.Bytes)
		extend(&time, title(r), chart.Point{X: x, Y: r.TimeUs})
		extend(&busbw, title(r), chart.Point{X: x, Y: r.BusbwGBs})
		floor.Points = append(floor.Points, chart.Point{X: x, Y: r.FloorUs})
		known = known && r.FloorUs > 0 // else there is one rank, or so few bytes that there is no limit
	}
	panels := []chart.Panel{time, busbw}
	if len(time.Curves) == 1 && known {
		time.Curves = append(time.Curves, floor)
		panels = []chart.Panel{time, time.Over(floor.Name), busbw}
	}
	return chart.SVG(heading(rows), 420, 380, panels)
}

// extend adds a point to the curve of a name.
func extend(p *chart.Panel, name string, v chart.Point) {
	i := slices.IndexFunc(p.Curves, func(c chart.Curve) bool { return c.Name == name })
	if i < 0 {
		i = len(p.Curves)
		p.Curves = append(p.Curves, chart.Curve{Name: name})
	}
	p.Curves[i].Points = append(p.Curves[i].Points, v)
}

func hasOutOfPlace(rows []*Row, in *Row) bool {
	return slices.ContainsFunc(rows, func(r *Row) bool {
		return !r.InPlace && r.Collective == in.Collective && r.Type == in.Type && r.Op == in.Op &&
			r.Bytes == in.Bytes && r.InFlight == in.InFlight
	})
}

// curveName returns a function that names the curve of a row by the fields that differ between curves.
func curveName(rows []*Row) func(*Row) string {
	types, ops := make(map[string]bool), make(map[string]bool)
	for _, r := range rows {
		if r.Bytes > 0 {
			types[r.Type] = true
		}
		if r.Op != "none" {
			ops[r.Op] = true
		}
	}
	return func(r *Row) string {
		words := []string{r.Collective}
		if len(ops) > 1 && r.Op != "none" {
			words = append(words, r.Op)
		}
		if len(types) > 1 {
			words = append(words, r.Type)
		}
		if r.InFlight > 1 {
			words = append(words, fmt.Sprintf("%d in flight", r.InFlight))
		}
		if r.InPlace {
			words = append(words, "in place")
		}
		return strings.Join(words, " ")
	}
}

// heading names the common properties of all curves.
func heading(rows []*Row) string {
	r := rows[0]
	mode := "median of the slowest rank"
	if r.Mode == "stream" {
		mode = "back to back"
	}
	what := r.Collective
	if slices.ContainsFunc(rows, func(other *Row) bool { return other.Collective != what }) {
		what = "collectives"
	}
	return fmt.Sprintf("%s on %s, %s", what, numbers.Count(r.NP, "rank"), mode)
}
