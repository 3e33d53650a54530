package main

import (
	"bytes"
	"embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"
)

// The pages, with calls of the methods of what they are made of.
//
//go:embed pages
var pages embed.FS

// written returns a page, made from its template.
func written(name string, data any) ([]byte, error) {
	t, err := template.ParseFS(pages, "pages/"+name+".tmpl")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, data)
	return b.Bytes(), err
}

// table is one of Markdown; its first row is the head.
type table [][]string

// line adds a row; figures are written with number.
func (t *table) line(cells ...any) {
	list := make([]string, len(cells))
	for i, c := range cells {
		if v, is := c.(float64); is {
			c = number(v)
		}
		list[i] = fmt.Sprint(c)
	}
	*t = append(*t, list)
}

// String writes the table, "" where it has no rows.
func (t table) String() string {
	var b strings.Builder
	if len(t) == 1 {
		return ""
	}
	for i, cells := range t {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(cells)))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Run is the table of the facts, with more rows.
func (r *record) Run(more ...[]string) table {
	t := table{{"run", ""}}
	for _, f := range r.facts {
		t.line(f.Fact, strings.ReplaceAll(f.Text, "|", "/"))
	}
	return append(t, more...)
}

// away says how many cores others used while these rows were measured.
func (r rows) away() []string {
	list := make([]float64, len(r))
	for i, v := range r {
		list[i] = v.Away
	}
	slices.Sort(list)
	return []string{"cores that others used during a job", fmt.Sprintf("median %.2f, 90th percentile %.2f, most %.2f",
		median(list), list[len(list)*9/10], list[len(list)-1])}
}

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// number writes three digits, or all before the point; "-" for what is not known.
func number(v float64) string {
	switch {
	case !known(v):
		return "-"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// ratio writes a ratio, or a share; "-" for what is not known.
func ratio(v float64) string {
	if !known(v) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

// below writes a ratio, bold where it is less than a goal.
func below(v, goal float64) string {
	if !known(v) || v >= goal {
		return ratio(v)
	}
	return "**" + ratio(v) + "**"
}

// ratios collects those of the rows of a table, and where treerun is slower.
type ratios struct {
	list   []float64
	slower []string
}

// add notes the ratio of a row, and the row where the ratio is below a goal.
func (r *ratios) add(v, goal float64, where string) {
	r.list = append(r.list, v)
	if v < goal {
		r.slower = append(r.slower, where)
	}
}

func (r *ratios) mean() string { return ratio(geometric(r.list)) }

func (r *ratios) where() string {
	if len(r.slower) == 0 {
		return "no size"
	}
	return strings.Join(r.slower, ", ")
}

// percent writes a share in percent.
func percent(share float64) string { return fmt.Sprintf("%g %%", 100*share) }
