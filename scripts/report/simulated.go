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

	"github.com/treerun/treerun/internal/chart"
	"github.com/treerun/treerun/internal/numbers"
)

// figure is one plot of the page on what is simulated.
type figure struct {
	Name  string // of its section in a file of numbers, and of its SVG file: "push-pull-50"
	Title string
	X     string // with its unit
	unit  string // what X counts: "floats"
	Y     string // with its unit
	times bool   // Y is a quotient: its axis is linear, and where curves cross means nothing

	series []chart.Curve
	cross  []crossing
}

// crossing says from where on one curve lies below another that it did not
// before, by interpolation between points.
type crossing struct {
	below, above string
	x            float64
}

const (
	blocks = "blocks that are not zero (%)"
	share  = "% of the blocks"
)

// figures are those of the page, without curves.
var figures = []figure{
	pushPull(1), pushPull(32), pushPull(50), pushPull(150),
	{Name: "bound-vgg-16", Title: "VGG-16 by the bound above which a key goes along eight trees", X: "bound (float32)",
		unit: "floats", Y: "time (ms)"},
	speedUp("fp32"), speedUp("fp16"),
	{Name: "tree-against-ring", Title: "AllReduce of 8 bytes: trees against a ring", X: "GPUs", unit: "GPUs",
		Y: "time (us)"},
	{Name: "many-hosts", Title: "AllReduce on 1,024 hosts of 8 GPUs", X: "bytes", unit: "bytes", Y: "time (us)"},
	{Name: "start-messages", Title: "Messages that a rank sends while a communicator starts", X: "GPUs", unit: "GPUs",
		Y: "messages"},
	{Name: "sparse-authors", Title: "Sparse AllReduce, random places: OmniReduce's authors and the simulator", X: blocks,
		unit: share, Y: "time (ms)"},
	onWorkers("random"), onWorkers("same"),
}

func pushPull(count int) figure {
	return figure{Name: pushPullName(count), Title: numbers.Count(count, "push-pull") + " before a wait on a p3.16xlarge",
		X: "key size (float32)", unit: "floats", Y: "time (ms)"}
}

func speedUp(kind string) figure {
	return figure{Name: "speed-up-" + kind, Title: "Training with trees: speed-up against NCCL's ring, " + kind,
		X: "images of a GPU", unit: "images", Y: "speed-up (times)", times: true}
}

func onWorkers(places string) figure {
	return figure{Name: "sparse-" + places, Title: "Sparse AllReduce on the workers alone, " + places + " places",
		X: blocks, unit: share, Y: "time (ms)"}
}

// models are the four networks of MXNet's proposal, by the names of their tables.
var models = []string{"resnet-50", "vgg-16", "inception-v3", "alexnet"}

var modelTitles = map[string]string{"resnet-50": "ResNet-50", "vgg-16": "VGG-16", "inception-v3": "Inception-v3",
	"alexnet": "AlexNet"}

// simulated is what the page is made of: tables of numbers, and figures, by name. The
// tests beside the files of numbers compute them and keep them up to date.
type simulated struct {
	tables  map[string][][]string
	figures map[string]*figure
}

var numberFiles = []string{
	"collective/sim/testdata/figures.tsv",
	"collective/sparse/internal/omni/testdata/figures.tsv",
}

func simulatedFiles(*record) (any, pictures, error) {
	s := &simulated{map[string][][]string{}, map[string]*figure{}}
	for _, file := range numberFiles {
		text, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			return nil, nil, fmt.Errorf("%w (this runs in the root of the repository)", err)
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
	files := pictures{}
	for _, f := range figures {
		var err error
		if f.times {
			err = s.speedUps(&f)
		} else if f.series, err = s.curves(f.Name); err == nil {
			f.cross = crossings(f.series)
		}
		if err == nil {
			files["simulated-"+f.Name+".svg"], err = f.drawn()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("figure %s: %w", f.Name, err)
		}
		s.figures[f.Name] = &f
	}
	return s, files, nil
}

// curves reads a table whose first line has names and whose first column is X.
func (s *simulated) curves(name string) ([]chart.Curve, error) {
	t := s.tables[name]
	if len(t) < 2 {
		return nil, fmt.Errorf("table %s has %d lines", name, len(t))
	}
	all := make([]chart.Curve, len(t[0])-1)
	for i := range all {
		all[i].Name, all[i].Look = t[0][i+1], i
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

// speedUps gives a figure how many times as long an iteration of every network takes
// with the ring as with trees.
func (s *simulated) speedUps(f *figure) error {
	for i, name := range models {
		ways, err := s.curves(name + strings.TrimPrefix(f.Name, "speed-up"))
		if err != nil {
			return err
		}
		times := over(find(ways, "nccl ring"), find(ways, "tree"))
		f.series = append(f.series, chart.Curve{Name: modelTitles[name], Look: i, Points: times})
	}
	return nil
}

// drawn returns the figure as an SVG file.
func (f *figure) drawn() ([]byte, error) {
	p := chart.Panel{Title: f.Title, X: f.X, Y: f.Y, Linear: f.times, Falling: f.times, Curves: slices.Clone(f.series)}
	rings := chart.Curve{Name: "where curves cross", Kind: chart.Rings}
	for _, c := range f.cross {
		rings.Points = append(rings.Points, chart.Point{X: c.x, Y: between(f.points(c.below), c.x)})
	}
	p.Curves = append(p.Curves, rings)
	return chart.SVG("", 560, 360, []chart.Panel{p})
}

// between is the value of a curve between its points, on logarithmic axes.
func between(points []chart.Point, x float64) float64 {
	for k := 1; k < len(points); k++ {
		a, b := points[k-1], points[k]
		if x <= b.X {
			t := math.Log(x/a.X) / math.Log(b.X/a.X)
			return math.Exp(math.Log(a.Y) + t*math.Log(b.Y/a.Y))
		}
	}
	return points[len(points)-1].Y
}

// crossings returns where the order of any two of the curves, which have the
// same X, changes: by rising X.
func crossings(series []chart.Curve) []crossing {
	var all []crossing
	for i, a := range series {
		for _, b := range series[:i] {
			last, from := 0.0, 0 // the last difference that was not zero, and where
			for k := range a.Points {
				d := math.Log(a.Points[k].Y / b.Points[k].Y)
				if d == 0 {
					continue
				}
				if last*d < 0 {
					x0, x1 := math.Log(a.Points[from].X), math.Log(a.Points[k].X)
					c := crossing{a.Name, b.Name, math.Exp(x0 + (x1-x0)*last/(last-d))}
					if d > 0 {
						c.below, c.above = b.Name, a.Name
					}
					all = append(all, c)
				}
				last, from = d, k
			}
		}
	}
	slices.SortStableFunc(all, func(a, b crossing) int { return cmp.Compare(a.x, b.x) })
	return all
}

// find returns the points of the curve of a name, nil for none.
func find(all []chart.Curve, name string) []chart.Point {
	if i := slices.IndexFunc(all, func(s chart.Curve) bool { return s.Name == name }); i >= 0 {
		return all[i].Points
	}
	return nil
}

func (f *figure) points(name string) []chart.Point { return find(f.series, name) }

// crossesAt returns from where on one curve lies below another, NaN where it
// never comes to that.
func (f *figure) crossesAt(below, above string) float64 {
	for _, c := range f.cross {
		if c.below == below && c.above == above {
			return c.x
		}
	}
	return math.NaN()
}

// over divides one curve by another.
func over(a, b []chart.Point) []chart.Point {
	quotient := make([]chart.Point, len(a))
	for i, p := range a {
		quotient[i] = chart.Point{X: p.X, Y: p.Y / b[i].Y}
	}
	return quotient
}

// at is a curve's value at one of its points, NaN at none.
func at(points []chart.Point, x float64) float64 {
	for _, p := range points {
		if p.X == x {
			return p.Y
		}
	}
	return math.NaN()
}

// extremes are the least and the largest value of a curve.
func extremes(points []chart.Point) (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, p := range points {
		least, most = min(least, p.Y), max(most, p.Y)
	}
	return least, most
}

// Figure returns a figure by its name.
func (s *simulated) Figure(name string) *figure { return s.figures[name] }

// Meetings says where curves cross, or how far apart the two of a figure end.
func (f *figure) Meetings() string {
	if f.times {
		return ""
	}
	var b strings.Builder
	for _, c := range f.cross {
		fmt.Fprintf(&b, "- From about %s %s on, the curve of **%s** lies below that of **%s**.\n", about(c.x),
			f.unit, c.below, c.above)
	}
	if len(f.cross) == 0 {
		b.WriteString("- No two of the curves cross.\n")
	}
	if len(f.series) == 2 {
		first, second := f.series[0], f.series[1]
		k := len(first.Points) - 1
		what, _, _ := strings.Cut(f.Y, " (")
		fmt.Fprintf(&b, "- At %s %s **%s** is at %.3g times the %s of **%s**.\n", grouped(first.Points[k].X), f.unit,
			second.Name, second.Points[k].Y/first.Points[k].Y, what, first.Name)
	}
	return b.String() + "\n"
}

// Table has the values of all curves.
func (f *figure) Table() table {
	head := []any{f.X}
	for _, s := range f.series {
		head = append(head, s.Name+", "+f.Y)
	}
	t := table{}
	t.line(head...)
	for k, p := range f.series[0].Points {
		cells := []any{grouped(p.X)}
		for _, s := range f.series {
			v := digits(s.Points[k].Y)
			if f.times {
				v = ratio(s.Points[k].Y)
			}
			cells = append(cells, v)
		}
		t.line(cells...)
	}
	return t
}

// Networks is the table of the sizes of the networks.
func (s *simulated) Networks() table {
	t := table(slices.Clone(s.tables["networks"][:1]))
	for _, cells := range s.tables["networks"][1:] {
		line := []any{modelTitles[cells[0]]}
		for _, cell := range cells[1:] {
			line = append(line, commas(cell))
		}
		t.line(line...)
	}
	return t
}

// Iterations is the table of what they take.
func (s *simulated) Iterations() table {
	t := table{append([]string{"network", ""}, s.tables[models[0]+"-fp32"][0]...)}
	for _, name := range models {
		for _, kind := range []string{"fp32", "fp16"} {
			for _, cells := range s.tables[name+"-"+kind][1:] {
				line := []any{modelTitles[name], kind, cells[0]}
				for _, cell := range cells[1:] {
					v, _ := strconv.ParseFloat(cell, 64) // curves has read it
					line = append(line, digits(v))
				}
				t.line(line...)
			}
		}
	}
	return t
}

// Constants are those that the figures stand on: names and values.
func (s *simulated) Constants() [][]string { return s.tables["constants"] }

// digits writes a value with three digits that count, and no exponent.
func digits(v float64) string {
	if v >= 1000 {
		return grouped(v)
	}
	after := 2 - int(math.Floor(math.Log10(v)))
	return fmt.Sprintf("%.*f", max(after, 0), v)
}

// grouped writes a whole number with a comma between thousands.
func grouped(v float64) string { return commas(strconv.FormatFloat(v, 'f', 0, 64)) }

func commas(s string) string {
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// about writes a number with the three digits that an interpolation is good for.
func about(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return grouped(math.Round(v/unit) * unit)
}
