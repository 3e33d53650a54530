package draw

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

var rankCircle = regexp.MustCompile(`<circle cx="([0-9.]+)" cy="([0-9.]+)" r="16"`)

func numerals(match []string) []float64 {
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
		low = max(low, numerals(m)[0])
	}
	if lines != 4 { // 60 words in lines of 20
		t.Errorf("%d lines of warnings, want 1 and 3", lines)
	}
	for i, m := range rankCircle.FindAllStringSubmatch(svg, -1) {
		before := numerals(rankCircle.FindAllStringSubmatch(plain, -1)[i])
		if at := numerals(m); at[1]-before[1] != lineStep*float64(lines) || at[1] < low+nodeRadius {
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
	if svg := SVG(g, Plan{}); !strings.Contains(svg, "3 ranks, 3 links, 3 of them measured<") || !strings.Contains(svg, "latency 0.25 to 0.75 us<") {
		t.Error(svg)
	}
	g.Links[1].Source = topo.Declared
	if svg := SVG(g, Plan{}); !strings.Contains(svg, "3 links, 2 of them measured<") {
		t.Error(svg)
	}
}
