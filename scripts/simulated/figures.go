package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Figure is one plot.
type Figure struct {
	Name      string // of its section in a file of numbers, and of its SVG file: "push-pull-50"
	Title     string
	XLabel    string // with its unit
	XUnit     string // what X counts: "floats"
	YLabel    string // with its unit
	Notes     []string
	Times     bool // Y is a quotient: its axis is linear, and where curves cross means nothing
	Series    []Series
	Crossings []Crossing

	from func(tables map[string][][]string) ([]Series, error) // nil: the table of the figure's name
}

// Series is one curve.
type Series struct {
	Name   string
	Points []Point // by rising X
}

// Point is one value of a curve.
type Point struct{ X, Y float64 }

// Crossing says from where on one curve lies below another that it did not
// before, by interpolation between points.
type Crossing struct {
	Below, Above string // names of series
	X            float64
}

// files have the numbers, below the root of the repository. The tests beside them
// compute them and keep them up to date.
var files = []string{"collective/sim/testdata/figures.tsv", "collective/sparse/omni/testdata/figures.tsv"}

// sections reads the files: tables of tab-separated lines by name.
func sections(root string) (map[string][][]string, error) {
	all := make(map[string][][]string)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		name := ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "["):
				name = strings.Trim(line, "[]")
			case line != "":
				all[name] = append(all[name], strings.Split(line, "\t"))
			}
		}
	}
	return all, nil
}

// curves reads a table whose first line has names and whose first column is X.
func curves(table [][]string) ([]Series, error) {
	if len(table) < 2 {
		return nil, fmt.Errorf("a table of %d lines", len(table))
	}
	var all []Series
	for _, name := range table[0][1:] {
		all = append(all, Series{Name: name})
	}
	for _, row := range table[1:] {
		if len(row) != len(table[0]) {
			return nil, fmt.Errorf("%d values for %d columns", len(row), len(table[0]))
		}
		numbers := make([]float64, len(row))
		for i, cell := range row {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				return nil, err
			}
			numbers[i] = v
		}
		for i := range all {
			all[i].Points = append(all[i].Points, Point{numbers[0], numbers[i+1]})
		}
	}
	return all, nil
}

// crossings returns where the order of any two of the curves, which have the
// same X, changes: by rising X.
func crossings(series []Series) []Crossing {
	var all []Crossing
	for i, a := range series {
		for _, b := range series[:i] {
			all = append(all, crossing(a, b)...)
		}
	}
	slices.SortStableFunc(all, func(a, b Crossing) int { return cmp.Compare(a.X, b.X) })
	return all
}

func crossing(a, b Series) []Crossing {
	var all []Crossing
	last, from := 0.0, 0 // the last difference that was not zero, and where
	for k := range a.Points {
		d := math.Log(a.Points[k].Y / b.Points[k].Y)
		if d == 0 {
			continue
		}
		if last*d < 0 {
			x0, x1 := math.Log(a.Points[from].X), math.Log(a.Points[k].X)
			c := Crossing{Below: a.Name, Above: b.Name, X: math.Exp(x0 + (x1-x0)*last/(last-d))}
			if d > 0 {
				c.Below, c.Above = b.Name, a.Name
			}
			all = append(all, c)
		}
		last, from = d, k
	}
	return all
}

// points returns the curve of a name.
func (f *Figure) points(name string) []Point { return find(f.Series, name) }

// crossesAt returns from where on one curve lies below another, NaN where it
// never comes to that.
func (f *Figure) crossesAt(below, above string) float64 {
	for _, c := range f.Crossings {
		if c.Below == below && c.Above == above {
			return c.X
		}
	}
	return math.NaN()
}
