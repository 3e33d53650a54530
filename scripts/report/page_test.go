//go:build linux

package main

import (
	"bytes"
	"embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"

	"github.com/treerun/treerun/internal/numbers"
)

// The templates of the pages: their prose and tables, with calls of the methods of their data.
//
//go:embed pages
var pages embed.FS

// functions holds the functions of the templates.
var functions = template.FuncMap{
	"bytes": numbers.Bytes, "number": number, "ratio": ratio, "below": below, "known": known, "percent": percent,
	"ms": ms, "title": titleOf,
	"mbit":  func(bytes int64, us float64) float64 { return float64(bytes) * 8 / us },
	"times": func(a, b float64) float64 { return a * b },
	"over":  func(a, b float64) float64 { return a / b },
	"float": func(n int) float64 { return float64(n) },
	"cell":  func(s string) string { return strings.ReplaceAll(s, "|", "/") },
	"list":  func(words ...string) []string { return words }, "split": strings.Split,
	"shares":  func(list ...float64) []float64 { return list },
	"ratios":  func() *ratios { return &ratios{} },
	"reached": func(holds bool) string { return verdict(holds, "reached", "**missed**") },
	// For the pages without measurements.
	"cut": cut, "about": about, "grouped": grouped, "joined": joined, "commas": commas, "shown": shown,
	"minus": func(a, b float64) float64 { return a - b }, "add": func(a, b int) int { return a + b },
	"larger": func(a, b float64) float64 { return max(a, b) }, "smaller": func(a, b float64) float64 { return min(a, b) },
	"append":     func(list []string, word string) []string { return append(list, word) },
	"numbers":    func(list ...int) []int { return list },
	"met":        func(holds bool) string { return verdict(holds, "met", "**missed**") },
	"near":       func(v, want, part float64) bool { return math.Abs(v/want-1) <= part },
	"models":     func() []string { return models },
	"model":      func(name string) string { return modelTitles[name] },
	"reproduced": func(holds bool) string { return verdict(holds, "reproduced", "**differs**") },
}

// written adds a page, made from its template, to files.
func written(files pictures, name string, data any) error {
	t, err := template.New(name+".tmpl").Funcs(functions).ParseFS(pages, "pages/shared.tmpl", "pages/"+name+".tmpl")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	err = t.Execute(&b, data)
	files[name+".md"] = b.Bytes()
	return err
}

// Away returns a description of the number of cores that others used while the rows were measured.
func (r rows) Away() string {
	list := make([]float64, len(r))
	for i, v := range r {
		list[i] = v.Away
	}
	slices.Sort(list)
	return fmt.Sprintf("median %.2f, 90th percentile %.2f, most %.2f", median(list), list[len(list)*9/10],
		list[len(list)-1])
}

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// number formats three digits, or all before the point; "-" for an unknown value.
func number(v float64) string {
	switch {
	case !known(v):
		return "-"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// ratio formats a ratio, or a share; "-" for an unknown value.
func ratio(v float64) string {
	if !known(v) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

// below formats a ratio, in bold if it is less than a goal.
func below(goal, v float64) string {
	if !known(v) || v >= goal {
		return ratio(v)
	}
	return "**" + ratio(v) + "**"
}

// percent formats a share in percent.
func percent(share float64) string { return fmt.Sprintf("%g %%", 100*share) }

// ms formats microseconds as milliseconds; "" for an unknown value.
func ms(us float64) string {
	if !known(us) {
		return ""
	}
	return number(us/1e3) + " ms"
}

// ratios collects the ratios of the rows of a table, and the rows where they are below a goal.
type ratios struct {
	list   []float64
	slower []string
}

// Note adds the ratio of a row, and returns it.
func (r *ratios) Note(where string, goal, v float64) float64 {
	if known(v) {
		r.list = append(r.list, v)
	}
	if v < goal {
		r.slower = append(r.slower, where)
	}
	return v
}

// Mean returns the geometric mean of the ratios.
func (r *ratios) Mean() float64 { return geometric(r.list) }

// Least returns the smallest ratio, NaN if there is none.
func (r *ratios) Least() float64 {
	if len(r.list) == 0 {
		return math.NaN()
	}
	return slices.Min(r.list)
}

// Where returns the names of the rows below the goal.
func (r *ratios) Where() string {
	if len(r.slower) == 0 {
		return "no size"
	}
	return strings.Join(r.slower, ", ")
}
