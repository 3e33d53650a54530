package draw

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

var (
	labelBox = regexp.MustCompile(`<rect x="([0-9.]+)" y="([0-9.]+)" width="([0-9.]+)" height="([0-9.]+)" rx="4"`)
	circle   = regexp.MustCompile(`<circle cx="([0-9.]+)" cy="([0-9.]+)"`)
)

func numbers(match []string) []float64 {
	var list []float64
	for _, s := range match[1:] {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			panic(err)
		}
		list = append(list, v)
	}
	return list
}

// Where lines cross, no label stands: nobody could tell whose it is. Here four
// links cross in the middle of a circle.
func TestLabelsKeepOffCrossings(t *testing.T) {
	g := &topo.Graph{Name: "wheel", Ranks: 8}
	tr := topo.Tree{Parent: []int{-1, 0, 1, 2, 0, 1, 2, 3}}
	for v, p := range tr.Parent {
		if p >= 0 {
			g.Links = append(g.Links, topo.Link{A: p, B: v, GBytesPerSecond: 25})
		}
	}
	svg := SVG(g, Plan{Trees: []topo.Tree{tr}, Rates: []float64{25}})
	x, y := 0.0, 0.0
	for _, m := range circle.FindAllStringSubmatch(svg, -1) {
		at := numbers(m)
		x, y = x+at[0]/8, y+at[1]/8
	}
	boxes := labelBox.FindAllStringSubmatch(svg, -1)
	if len(boxes) != 7 {
		t.Fatalf("%d labels, want one for each of 7 links", len(boxes))
	}
	for _, m := range boxes {
		r := numbers(m)
		if r[0] <= x && x <= r[0]+r[2] && r[1] <= y && y <= r[1]+r[3] {
			t.Errorf("a label covers the crossing at %.0f,%.0f: %s", x, y, m[0])
		}
	}
}

// A line enters a box when a part of it is inside.
func TestCrossedBy(t *testing.T) {
	r := rect{point{10, 10}, point{20, 15}}
	for _, c := range []struct {
		a, b point
		want bool
	}{
		{point{0, 12}, point{30, 12}, true}, {point{12, 0}, point{12, 30}, true}, {point{0, 0}, point{30, 30}, true},
		{point{12, 12}, point{13, 13}, true}, {point{0, 12}, point{9, 12}, false}, {point{0, 16}, point{30, 16}, false},
		{point{0, 20}, point{40, 10}, true}, {point{0, 40}, point{40, 0}, false}, {point{21, 0}, point{21, 30}, false},
	} {
		if got := r.crossedBy(c.a, c.b); got != c.want || r.crossedBy(c.b, c.a) != c.want {
			t.Errorf("%v to %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// Warnings stand below the title, in lines that fit, and push the rest down; the
// picture is as wide as its title.
func TestWarningsAndTitle(t *testing.T) {
	g, p := square()
	plain := SVG(g, p)
	p.Warnings = []string{"--max-height 1 is not kept", strings.Repeat("word ", 60)}
	p.Title = strings.Repeat("long title ", 20)
	svg := SVG(g, p)
	lines := 0
	low := 0.0
	for _, m := range regexp.MustCompile(`y="([0-9.]+)" font-size="13" text-anchor="start" fill="#b00000"`).FindAllStringSubmatch(svg, -1) {
		lines++
		low = max(low, numbers(m)[0])
	}
	if lines != 4 { // 60 words in lines of 20
		t.Errorf("%d lines of warnings, want 1 and 3", lines)
	}
	for i, m := range circle.FindAllStringSubmatch(svg, -1) {
		before := numbers(circle.FindAllStringSubmatch(plain, -1)[i])
		if at := numbers(m); at[1]-before[1] != warningStep*float64(lines) || at[1] < low+nodeRadius {
			t.Errorf("rank %d stands at %v, was at %v; warnings end at %v", i, at, before, low)
		}
	}
	var width float64
	if _, err := fmt.Sscanf(svg[strings.Index(svg, `width="`):], `width="%f"`, &width); err != nil || width < 220*9 {
		t.Errorf("width %v for a title of 220 characters, %v", width, err)
	}
	if text := Text(g, p); !strings.Contains(text, "\nnote: --max-height 1 is not kept\nnote: word") {
		t.Errorf("%.400s", text)
	}
}

// Measured links, and latencies, are told in the legend.
func TestLegendOfMeasured(t *testing.T) {
	g := topo.UniformGraph(3)
	for i := range g.Links {
		g.Links[i].Source, g.Links[i].LatencyUs = topo.Measured, 0.25*float64(i+1)
	}
	if svg := SVG(g, Plan{}); !strings.Contains(svg, "3 ranks, 3 links, measured<") || !strings.Contains(svg, "latency 0.25 to 0.75 us<") {
		t.Error(svg)
	}
	g.Links[1].Source = topo.Declared
	if svg := SVG(g, Plan{}); !strings.Contains(svg, "3 links, 2 of them measured<") {
		t.Error(svg)
	}
}
