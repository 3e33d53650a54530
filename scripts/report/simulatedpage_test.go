//go:build linux

package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/chart"
)

// figure is one plot of the page on simulations.
type figure struct {
	Name  string // of its section in a file of numbers, and of its SVG file: "push-pull-50"
	Title string
	X     string // with its unit
	Unit  string // unit of X: "floats"
	Y     string // with its unit
	Times bool   // Y is a quotient: its axis is linear, and crossings have no meaning

	Series    []chart.Curve
	Crossings []crossing
}

// figures holds the figures of the page: name, title, X, unit and Y.
//
//go:embed pages/figures.tsv
var figures string

// models are the four networks of MXNet's proposal, by the names of their tables.
var models = []string{"resnet-50", "vgg-16", "inception-v3", "alexnet"}

var modelTitles = map[string]string{"resnet-50": "ResNet-50", "vgg-16": "VGG-16", "inception-v3": "Inception-v3",
	"alexnet": "AlexNet"}

// Small is the number of images of a GPU for the "small batch sizes" of the proposal, as in its figure 7.
const Small = 4

// simulated is the data of the page: tables of numbers, and figures, by name. The tests next to the files of numbers
// compute them and keep them up to date.
type simulated struct {
	tables  map[string][][]string
	figures map[string]*figure
}

var numberFiles = []string{
	"collective/sim/testdata/figures.tsv",
	"collective/sparse/internal/merge/testdata/figures.tsv",
}

// simulatedPage returns the data that tests compute.
func simulatedPage(charts pictures) (any, error) {
	s := &simulated{map[string][][]string{}, map[string]*figure{}}
	for _, file := range numberFiles {
		text, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			return nil, fmt.Errorf("%w (this runs in the root of the repository)", err)
		}
		name := ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "["):
				name = strings.Trim(line, "[]")
			case line != "":
				s.tables[name] = append(s.tables[name], strings.Split(line, "\t"))
			}
		}
	}
	for line := range strings.Lines(figures) {
		c := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		f := &figure{Name: c[0], Title: c[1], X: c[2], Unit: c[3], Y: c[4], Times: strings.HasPrefix(c[0], "speed-up")}
		err := s.fill(f)
		if err == nil {
			charts["simulated-"+f.Name+".svg"], err = f.drawn()
		}
		if err != nil {
			return nil, fmt.Errorf("figure %s: %w", f.Name, err)
		}
		s.figures[f.Name] = f
	}
	return s, nil
}

// fill sets the curves of a figure: those of its table or, for speed-ups, the ratio of the times of an iteration of
// every network with the ring and with trees.
func (s *simulated) fill(f *figure) (err error) {
	if !f.Times {
		f.Series, err = s.curves(f.Name)
		f.Crossings = crossings(f.Series)
		return err
	}
	for _, name := range models {
		ways, err := s.curves(name + strings.TrimPrefix(f.Name, "speed-up"))
		if err != nil {
			return err
		}
		times := find(ways, "nccl ring").Over(find(ways, "tree"))
		f.Series = append(f.Series, chart.Curve{Name: modelTitles[name], Points: times})
	}
	return nil
}

// curves returns the curves of a table whose first line has names and whose first column is X.
func (s *simulated) curves(name string) ([]chart.Curve, error) {
	t := s.tables[name]
	if len(t) < 2 {
		return nil, fmt.Errorf("table %s has %d lines", name, len(t))
	}
	all := make([]chart.Curve, len(t[0])-1)
	for i := range all {
		all[i].Name = t[0][i+1]
	}
	for _, cells := range t[1:] {
		if len(cells) != len(t[0]) {
			return nil, fmt.Errorf("table %s has %d values for %d columns", name, len(cells), len(t[0]))
		}
		numbers := make([]float64, len(cells))
		for i, cell := range cells {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				return nil, err
			}
			numbers[i] = v
		}
		for i := range all {
			all[i].Points = append(all[i].Points, chart.Point{X: numbers[0], Y: numbers[i+1]})
		}
	}
	return all, nil
}

// find returns the curve of a name, nil if there is none.
func find(all []chart.Curve, name string) curve {
	if i := slices.IndexFunc(all, func(s chart.Curve) bool { return s.Name == name }); i >= 0 {
		return curve(all[i].Points)
	}
	return nil
}

// drawn returns the figure as an SVG file.
func (f *figure) drawn() ([]byte, error) {
	p := chart.Panel{Title: f.Title, X: f.X, Y: f.Y, Linear: f.Times, Curves: f.Series}
	return chart.SVG("", 560, 360, []chart.Panel{p})
}

// Figure returns a figure by its name.
func (s *simulated) Figure(name string) *figure { return s.figures[name] }

// Curve returns a curve by its name.
func (f *figure) Curve(name string) curve { return find(f.Series, name) }

// Curves returns all curves.
func (f *figure) Curves() (all []curve) {
	for _, c := range f.Series {
		all = append(all, c.Points)
	}
	return all
}

// Crossing returns the X from which one curve is below another, NaN if it never is.
func (f *figure) Crossing(below, above string) float64 {
	for _, c := range f.Crossings {
		if c.Below == below && c.Above == above {
			return c.X
		}
	}
	return math.NaN()
}

// Rows returns the values of all curves, below their names.
func (f *figure) Rows() [][]string {
	rows := [][]string{{f.X}}
	for _, c := range f.Series {
		rows[0] = append(rows[0], c.Name+", "+f.Y)
	}
	for k, p := range f.Series[0].Points {
		cells := []string{grouped(p.X)}
		for _, c := range f.Series {
			v := digits(c.Points[k].Y)
			if f.Times {
				v = ratio(c.Points[k].Y)
			}
			cells = append(cells, v)
		}
		rows = append(rows, cells)
	}
	return rows
}

// Table returns the lines of a table of numbers, as in its file: the first has names.
func (s *simulated) Table(name string) [][]string { return s.tables[name] }

// iteration holds the time of an iteration of a network, over the number of images, in ms, by way.
type iteration struct {
	Model string
	ways  []chart.Curve
}

// Of returns the time of one way for few images.
func (i iteration) Of(way string) float64 { return find(i.ways, way).At(Small) }

// Speedup returns the time of a rival as a multiple of the time of trees, from few images on.
func (i iteration) Speedup(rival string) curve {
	return find(i.ways, rival).Over(find(i.ways, "tree")).Within(Small, math.Inf(1))
}

// Places returns the ways, the fastest first.
func (i iteration) Places() []string {
	ways := []string{"tree", "nccl ring", "parameter server"}
	slices.SortStableFunc(ways, func(a, b string) int { return cmp.Compare(i.Of(a), i.Of(b)) })
	return ways
}

// Training returns the iteration of a network, by the name of its table.
func (s *simulated) Training(model, kind string) (iteration, error) {
	ways, err := s.curves(model + "-" + kind)
	return iteration{modelTitles[model], ways}, err
}

// Places returns the numbers of networks for which trees are the fastest way, the second and the last.
func (s *simulated) Places() (counts [3]int, err error) {
	for _, name := range models {
		t, err := s.Training(name, "fp32")
		if err != nil {
			return counts, err
		}
		counts[slices.Index(t.Places(), "tree")]++
	}
	return counts, nil
}

// AheadAt returns the sizes for which the tree, one or many above 10M floats, is ahead of both rivals.
func (f *figure) AheadAt() (ahead []string) {
	ring, server, many := f.Curve("nccl ring"), f.Curve("parameter server"), f.Curve("multi-tree")
	for i, p := range f.Curve("tree") {
		if p.X > 10e6 {
			p = many[i]
		}
		if p.Y < min(ring[i].Y, server[i].Y) {
			ahead = append(ahead, grouped(p.X))
		}
	}
	return ahead
}

// joined formats words as "a, b and c"; "none" for no words.
func joined(words []string) string {
	switch len(words) {
	case 0:
		return "none"
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// shown formats a number of a table with digits.
func shown(cell string) (string, error) {
	v, err := strconv.ParseFloat(cell, 64)
	return digits(v), err
}

// digits formats a value with three significant digits, and no exponent.
func digits(v float64) string {
	if v >= 1000 {
		return grouped(v)
	}
	after := 2 - int(math.Floor(math.Log10(v)))
	return fmt.Sprintf("%.*f", max(after, 0), v)
}

// grouped formats a whole number with a comma between thousands.
func grouped(v float64) string { return commas(strconv.FormatFloat(v, 'f', 0, 64)) }

func commas(s string) string {
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// about formats a number with three digits, the precision of an interpolation.
func about(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return grouped(math.Round(v/unit) * unit)
}
