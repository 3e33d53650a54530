package chart_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/chart"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/draw"
)

// label is a text of a picture, with its box.
type label struct {
	text string
	box  chart.Box
}

// overlap reports whether two boxes share more than the room between letters.
func overlap(a, b chart.Box) bool {
	const slack = 0.5
	return a.Left < b.Right-slack && b.Left < a.Right-slack && a.Top < b.Bottom-slack && b.Top < a.Bottom-slack
}

// labels parses a picture, checks the properties of every picture, and returns its texts.
func labels(t *testing.T, name string, file []byte) (list []label, count map[string]int) {
	t.Helper()
	count = make(map[string]int)
	var wide, high float64
	var at []string // the elements around
	var turned chart.Point
	var open label
	for d := xml.NewDecoder(strings.NewReader(string(file))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			attrs := make(map[string]string)
			for _, a := range e.Attr {
				attrs[a.Name.Local] = a.Value
			}
			if len(at) == 0 {
				_, err := fmt.Sscan(attrs["width"]+" "+attrs["height"], &wide, &high)
				if err != nil || attrs["role"] != "img" || !strings.HasSuffix(attrs["font-family"], "sans-serif") ||
					attrs["viewBox"] != fmt.Sprintf("0 0 %v %v", wide, high) {
					t.Errorf("%s: the root is %v", name, attrs)
				}
			}
			if len(at) == 1 {
				turned = chart.Point{}
				_, _ = fmt.Sscanf(attrs["transform"], "translate(%f %f) rotate(-90)", &turned.X, &turned.Y)
			}
			if e.Name.Local == "text" {
				var p chart.Point
				var size float64
				if _, err := fmt.Sscan(attrs["x"]+" "+attrs["y"]+" "+attrs["font-size"], &p.X, &p.Y, &size); err != nil {
					t.Fatalf("%s: text of %v: %v", name, attrs, err)
				}
				open.box.Left, open.box.Top, open.box.Right = p.X, p.Y, size
				open.text = attrs["text-anchor"]
			}
			count[e.Name.Local]++
			at = append(at, e.Name.Local)
		case xml.EndElement:
			at = at[:len(at)-1]
		case xml.CharData:
			switch {
			case len(at) == 0:
			case at[len(at)-1] == "text":
				b := chart.TextBox(chart.At(open.box.Left, open.box.Top), open.box.Right, open.text, string(e))
				if turned != (chart.Point{}) { // a quarter to the left
					b = chart.Box{Left: turned.X + b.Top, Top: turned.Y - b.Right, Right: turned.X + b.Bottom,
						Bottom: turned.Y - b.Left}
				}
				list = append(list, label{string(e), b})
			case len(at) == 2 && at[1] == "title" && strings.TrimSpace(string(e)) != "":
				count["titled"]++
			case len(at) == 2 && at[1] == "style" && strings.Contains(string(e), "prefers-color-scheme: dark"):
				count["dark"]++
			}
		}
	}
	if count["titled"] != 1 || count["desc"] != 1 || count["style"] != 1 || count["dark"] != 1 {
		t.Errorf("%s: want a title, a description and a style for dark pages: %v", name, count)
	}
	for i, a := range list {
		if a.box.Left < -0.5 || a.box.Top < -0.5 || a.box.Right > wide+0.5 || a.box.Bottom > high+0.5 {
			t.Errorf("%s: %q at %v sticks out of %v x %v", name, a.text, a.box, wide, high)
		}
		for _, b := range list[:i] {
			if overlap(a.box, b.box) {
				t.Errorf("%s: %q at %v lies on %q at %v", name, a.text, a.box, b.text, b.box)
			}
		}
	}
	return list, count
}

// No text of a chart lies on another, with as many curves as bench draws, and with one.
func TestChartLabels(t *testing.T) {
	for _, curves := range []int{1, 2, 10, 14} {
		for _, most := range []float64{10, 1 << 20, 1 << 40} {
			time := chart.Panel{Title: "time", X: "message (bytes)", Y: "time (µs)", Sizes: true}
			for i := range curves {
				c := chart.Curve{Name: fmt.Sprintf("a curve with a long name, %d", i)}
				for x := 1.0; x <= most; x *= 2 {
					c.Points = append(c.Points, chart.Point{X: x, Y: x * float64(i+1)})
				}
				time.Curves = append(time.Curves, c)
			}
			linear := time
			linear.Linear, linear.Sizes = true, false
			ratio := time.Over(time.Curves[0].Name)
			file, err := chart.SVG("a title", 400, 340, []chart.Panel{time, ratio, linear}, []chart.Panel{ratio})
			if err != nil {
				t.Fatal(err)
			}
			list, _ := labels(t, fmt.Sprintf("%d curves to %v", curves, most), file)
			named := 0
			for _, l := range list {
				if strings.HasPrefix(l.text, "a curve with a long name, ") {
					named++
				}
			}
			if named != curves {
				t.Errorf("the legend has %d names for %d curves", named, curves)
			}
		}
	}
}

// Curves twenty at a time differ in color or line, and in one picture the same name looks the same.
func TestCurvesDiffer(t *testing.T) {
	time := chart.Panel{}
	for i := range 20 {
		time.Curves = append(time.Curves, chart.Curve{Name: fmt.Sprint("curve ", i),
			Points: []chart.Point{{X: 1, Y: 1}, {X: 100, Y: float64(i + 1)}}})
	}
	turned := time
	turned.Curves = append([]chart.Curve{time.Curves[19]}, time.Curves[:19]...)
	file, err := chart.SVG("", 400, 340, []chart.Panel{time, turned})
	if err != nil {
		t.Fatal(err)
	}
	looks := make(map[string]int) // of lines: class, width, dashes
	for line := range strings.Lines(string(file)) {
		if look, _, is := strings.Cut(line, ` d="`); is && strings.Contains(look, `<path class="c`) {
			looks[look]++
		}
	}
	if len(looks) != 20 {
		t.Errorf("20 curves have %d looks", len(looks))
	}
	for look, n := range looks {
		if n != 3 { // two panels and the legend
			t.Errorf("%d lines are %s, want 3", n, look)
		}
	}
}

// linear returns the red, green and blue light of a color.
func linear(t *testing.T, color string) (l [3]float64) {
	t.Helper()
	var c [3]uint8
	if _, err := fmt.Sscanf(color, "#%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
		t.Fatal(color, err)
	}
	for i, v := range c {
		l[i] = math.Pow((float64(v)/255+0.055)/1.055, 2.4)
		if v <= 10 {
			l[i] = float64(v) / 255 / 12.92
		}
	}
	return l
}

func luminance(l [3]float64) float64 { return 0.2126*l[0] + 0.7152*l[1] + 0.0722*l[2] }

// contrast returns the contrast of WCAG: at least 3 for graphics, 4.5 for text.
func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(linear(t, a)), luminance(linear(t, b))
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// visions are the kinds of color vision: all colors, and without one kind of cone (Machado, Oliveira and Fernandes,
// 2009).
var visions = map[string][3][3]float64{
	"all": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia": {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216},
		{-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413},
		{-0.011820, 0.042940, 0.968881}},
	"tritanopia": {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602},
		{0.004733, 0.691367, 0.303900}},
}

// lab returns a color as seen, in CIELAB.
func lab(l [3]float64, vision [3][3]float64) [3]float64 {
	var seen [3]float64
	for i, row := range vision {
		seen[i] = min(max(row[0]*l[0]+row[1]*l[1]+row[2]*l[2], 0), 1)
	}
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16.0/116
	}
	x := f((0.4124*seen[0] + 0.3576*seen[1] + 0.1805*seen[2]) / 0.9505)
	y := f(luminance(seen))
	z := f((0.0193*seen[0] + 0.1192*seen[1] + 0.9505*seen[2]) / 1.089)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// The colors of curves can be seen on their paper, and distinguished by people of all kinds of color vision, and text
// can be read, on light and on dark pages.
func TestColors(t *testing.T) {
	of := make(map[string][3]string)
	for _, c := range chart.Colors {
		of[c[0]] = c
	}
	for page := 1; page <= 2; page++ {
		paper := of[chart.Paper][page]
		for class, least := range map[string]float64{chart.Ink: 7, chart.Alarm: 4.5, chart.Line: 3, chart.Faint: 1.3} {
			if c := contrast(t, of[class][page], paper); c < least {
				t.Errorf("%s, %s on %s: contrast %.2f, want %v", class, of[class][page], paper, c, least)
			}
		}
		for i := range chart.Curves {
			a := of[chart.Color(i)][page]
			if c := contrast(t, a, paper); c < 3 {
				t.Errorf("color %d, %s on %s: contrast %.2f", i, a, paper, c)
			}
			for k := range i {
				b := of[chart.Color(k)][page]
				for name, vision := range visions {
					x, y := lab(linear(t, a), vision), lab(linear(t, b), vision)
					if d := math.Sqrt((x[0]-y[0])*(x[0]-y[0]) + (x[1]-y[1])*(x[1]-y[1]) + (x[2]-y[2])*(x[2]-y[2])); d < 12 {
						t.Errorf("colors %d and %d, %s and %s, vision %s: differ by %.1f", k, i, b, a, name, d)
					}
				}
			}
		}
	}
}

// No text of a picture of a known machine lies on another: its graph alone, and with one tree,
// with as many as it has ranks, and with a ring; with names of hosts that are long, too.
func TestGraphLabels(t *testing.T) {
	for _, machine := range topo.Machines() {
		g, _ := topo.Machine(machine)
		var trees []topo.Tree
		for root := range g.Ranks {
			trees = append(trees, topo.Star(g.Ranks, root))
		}
		order := make([]int, g.Ranks)
		for i := range order {
			order[i] = i
		}
		for name, p := range map[string]draw.Plan{
			"alone": {}, "one tree": {Trees: trees[:1]}, "all trees": {Trees: trees},
			"a tree and a ring": {Trees: trees[:1], Rings: [][]int{order}},
		} {
			p.Rates = slices.Repeat([]float64{0.12345}, len(p.Trees)+len(p.Rings))
			p.Title = "what is drawn here is said at length, as the command that plans does: 123456.7 us predicted"
			p.Notes = []string{strings.Repeat("a note of several lines ", 9)}
			file := draw.SVG(g, p)
			list, _ := labels(t, machine+", "+name, []byte(file))
			for i := range 12 {
				p.Hosts = append(p.Hosts, fmt.Sprintf("node%02d.rack.example.org", i))
			}
			labels(t, machine+", "+name+", long names", []byte(draw.SVG(g, p)))
			for _, port := range g.Ports {
				if !slices.ContainsFunc(list, func(l label) bool { return strings.HasPrefix(l.text, port.Name+": ") }) &&
					!strings.Contains(file, " more trees, rings and ports<") {
					t.Errorf("%s, %s: %s is not named", machine, name, port.Name)
				}
			}
		}
	}
}

// Graphs that no known machine has are drawn as well: ports that overlap, that span hosts, or that contain ranks of
// other ports; hosts of several sizes; many hosts of one rank; one rank.
func TestOddGraphs(t *testing.T) {
	port := func(name string, ranks ...int) topo.Port {
		return topo.Port{Name: name, Ranks: ranks, GBytesPerSecond: 1}
	}
	for name, c := range map[string]struct {
		ranks int
		hosts []int
		ports []topo.Port
	}{
		"one rank":  {1, nil, nil},
		"two ranks": {2, nil, []topo.Port{port("card", 1)}},
		"overlap":   {6, nil, []topo.Port{port("a", 0, 1, 2), port("b", 2, 3), port("c", 2, 3), port("d", 0, 3)}},
		"opposite":  {4, nil, []topo.Port{port("a", 0, 2), port("b", 1, 3), port("c", 0, 1, 2)}},
		"across hosts": {5, []int{0, 0, 1, 1, 2},
			[]topo.Port{port("rack", 0, 1, 2, 3), port("part", 1, 2), port("last", 4)}},
		"sizes of hosts": {8, []int{0, 1, 1, 1, 1, 1, 1, 2},
			[]topo.Port{port("card", 1, 2, 3, 4, 5, 6), port("other", 7)}},
	} {
		g := topo.UniformGraph(c.ranks)
		g.Hosts, g.Ports = c.hosts, c.ports
		if err := g.Validate(); err != nil {
			t.Fatal(name, err)
		}
		list, _ := labels(t, name, []byte(draw.SVG(g, draw.Plan{})))
		for _, p := range c.ports {
			if !slices.ContainsFunc(list, func(l label) bool { return l.text == p.Name+": 1 GB/s" }) {
				t.Errorf("%s: port %s is not named", name, p.Name)
			}
		}
	}
	many := topo.UniformGraph(60)
	for r := range many.Ranks {
		many.Hosts = append(many.Hosts, r)
		many.Ports = append(many.Ports, port(fmt.Sprintf("card of host %d", r), r))
	}
	labels(t, "many hosts", []byte(draw.SVG(many, draw.Plan{})))
}
