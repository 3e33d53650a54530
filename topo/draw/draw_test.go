package draw

import (
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

var rewrite = flag.Bool("rewrite", false, "write what is drawn to testdata; commit only a change that you understand")

// square is two hosts of two ranks with a card each, and two trees and a ring
// on it.
func square() (*topo.Graph, Plan) {
	g := &topo.Graph{
		Name: "square", Ranks: 4, Hosts: []int{0, 0, 3, 3},
		Links: []topo.Link{
			{A: 0, B: 1, GBytesPerSecond: 20, LatencyUs: 0.2, Kind: "shm"},
			{A: 3, B: 2, GBytesPerSecond: 20, LatencyUs: 0.2, Kind: "shm"},
			{A: 0, B: 2, GBytesPerSecond: 1.25, Kind: "tcp"},
			{A: 1, B: 3, GBytesPerSecond: 1.25, Kind: "tcp"},
		},
		Ports: []topo.Port{{Name: "card of host 3", Ranks: []int{3, 2}, GBytesPerSecond: 2}},
	}
	p := Plan{
		Trees: []topo.Tree{
			{Root: 0, Parent: []int{-1, 0, 0, 2}, Round: []int{0, 1, 2, 1}},
			{Root: 3, Parent: []int{1, 3, 3, -1}, Note: "made by hand"},
		},
		Rings: [][]int{{0, 1, 3, 2}},
		Rates: []float64{0.5, 0.25, 0.5},
		Notes: []string{"the card of host 3 is the limit: 2 GB/s"},
	}
	return g, p
}

// The drawings of the square, as text and SVG, are in testdata.
func TestGolden(t *testing.T) {
	g, p := square()
	for name, got := range map[string]string{
		"square.txt": Text(g, p), "square-graph.txt": g.String(),
		"square.svg": SVG(g, p), "square-graph.svg": SVG(g, Plan{}),
	} {
		file := filepath.Join("testdata", name)
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is not as it was (run with -rewrite and look at the difference):\n%s", name, got)
		}
	}
}

// elements parses an SVG file and counts its elements by name.
func elements(t *testing.T, svg string) map[string]int {
	t.Helper()
	count := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return count
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
}

// ranks counts the ranks that are drawn with a radius.
func ranks(svg string, radius float64) int {
	return strings.Count(svg, fmt.Sprintf(` width="%.1f" height="%.1[1]f" rx="%.1[2]f"`, 2*radius, radius))
}

// Every rank is a disc, every port a box, and all links that pass the same ports one line. Every tree and ring has a
// small drawing of its own: every rank again, and a line with an arrow for each of its links.
func TestSVGElements(t *testing.T) {
	g, p := square()
	svg := SVG(g, p)
	n := elements(t, svg)
	uses := 3 + 3 + 4
	const wires = 2 + 2 + 2 // links within hosts, links between a rank and the card, and the contents of the card
	if arrows := strings.Count(svg, "marker-end"); ranks(svg, nodeRadius) != 4 || ranks(svg, smallNode) != 3*4 ||
		n["rect"] != 1+4+3*4+len(g.Ports) || n["path"] != wires+uses+n["marker"] || n["marker"] != 3 || arrows != uses {
		t.Errorf("%d and %d ranks, %v and %d arrows", ranks(svg, nodeRadius), ranks(svg, smallNode), n, arrows)
	}
	if n["use"] != 3 || strings.Count(svg, `class="c1 on" stroke="currentColor" stroke-width="3.0"`) != 1 {
		t.Error("the root of tree 1 is not in its color, or a small drawing has no graph")
	}
	if strings.Count(svg, ">host 0<") != 1 || strings.Count(svg, ">host 3<") != 1 ||
		strings.Count(svg, ">card of host 3: 1.25 / 2 GB/s</text>") != 1 {
		t.Error("the hosts and the port are not named once")
	}
	p.Trees, p.Rates = p.Trees[:1], p.Rates[:1]
	p.Rings = nil
	if svg = SVG(g, p); strings.Count(svg, "marker-end") != 3 || strings.Contains(svg, "<use") {
		t.Error("a single tree is not drawn on the graph itself")
	}
}

// A PCIe machine shows its switches and the link between its sockets: a tree of ports, and no line between ranks.
func TestPortsNest(t *testing.T) {
	g, _ := topo.Machine("pcie8")
	x := &canvas{picture: newPicture(g, Plan{})}
	x.connect()
	got := map[string]int{}
	name := func(v int) string {
		if v < g.Ranks {
			return "rank"
		}
		return strings.TrimRight(g.Ports[v-g.Ranks].Name, " 0123456789")
	}
	for _, w := range x.wires {
		got[fmt.Sprintf("%s-%s of %d", name(w.a), name(w.b), len(w.links))]++
	}
	want := map[string]int{
		"gpu-rank of 0": 8, "switch-gpu of 0": 8, "socket interconnect-switch of 0": 2,
		"gpu-gpu of 1": 4, "switch-switch of 4": 2, "socket interconnect-switch of 8": 2,
	}
	if !maps.Equal(got, want) {
		t.Errorf("wires %v, want %v", got, want)
	}
	svg := SVG(g, Plan{})
	for _, p := range g.Ports {
		if strings.Count(svg, ">"+p.Name+": ") < 1 {
			t.Errorf("%s is not named", p.Name)
		}
	}
}

// Names from graph files cannot break out of the text of a picture.
func TestHostileNames(t *testing.T) {
	g, p := square()
	evil := "\"]};</title><script>&\\\n"
	g.Name, g.Ports[0].Name, g.Links[0].Kind, p.Notes[0] = evil, evil, evil, evil
	if n := elements(t, SVG(g, p)); n["script"] != 0 {
		t.Error("a name became an element")
	}
}

// Loads that are more than a link has are red.
func TestOverload(t *testing.T) {
	g, p := square()
	if s := SVG(g, p); strings.Contains(s, `class="alarm`) {
		t.Error("red without overload")
	}
	p.Rates = []float64{1, 0.25, 0.5}
	if s := SVG(g, p); strings.Count(s, `<path class="alarm"`) != 1 || !strings.Contains(s, "><title>0-2: 1.5 / 1.25 GB/s, ") {
		t.Error("1.5 GB/s over a link of 1.25 is not red")
	}
}

// One is no plural, in the title and in the legend.
func TestOneRank(t *testing.T) {
	svg := SVG(&topo.Graph{Ranks: 1}, Plan{})
	if !strings.Contains(svg, "<title>1 rank<") || !strings.Contains(svg, ">1 rank, 0 links<") ||
		strings.Contains(svg, "1 ranks") {
		t.Errorf("%s", svg)
	}
	svg = SVG(topo.UniformGraph(2), Plan{})
	if !strings.Contains(svg, ">2 ranks, 1 link<") {
		t.Errorf("%s", svg)
	}
}

// Pictures of large graphs stay of a size that a browser can show, and mention omitted parts; one rank can be drawn,
// too.
func TestSizes(t *testing.T) {
	for _, n := range []int{1, 2, 3, 17, 200} {
		g := topo.UniformGraph(n)
		s := SVG(g, Plan{})
		if got := ranks(s, nodeRadius); got != n || elements(t, s)["rect"] != 1+n {
			t.Errorf("%d ranks: %d discs", n, got)
		}
		if len(s) > 2<<20 {
			t.Errorf("%d ranks: %d bytes of SVG", n, len(s))
		}
		if left := len(g.Links) - maxLinks; left > 0 &&
			!strings.Contains(s, fmt.Sprintf("%d slower links are not drawn", left)) {
			t.Errorf("%d ranks: the text does not name what is left out", n)
		}
	}
	g := topo.UniformGraph(256) // 32 hosts of 8
	for r := range 256 {
		g.Hosts = append(g.Hosts, r/8)
	}
	path := topo.Tree{Parent: make([]int, 256)}
	for r := range path.Parent {
		path.Parent[r] = r - 1
	}
	s := SVG(g, Plan{Trees: []topo.Tree{path}, Rates: []float64{1}})
	if got := strings.Count(s, "marker-end"); got != 255 {
		t.Errorf("32 hosts: %d arrows for 255 links of a tree", got)
	}
	if s := Text(g, Plan{Trees: []topo.Tree{path}, Rates: []float64{1}}); strings.Count(s, "load GB/s  share") != 1 ||
		!strings.Contains(s, "and 191 more, less busy") {
		t.Error("the table of 255 links")
	}
}

// Two rings that go opposite ways share no direction of a link, and a port has the load of one way.
func TestLoadsOfDirectedRings(t *testing.T) {
	g, _ := square()
	x := newPicture(g, Plan{Rings: [][]int{{0, 1, 3, 2}, {0, 2, 3, 1}, {0, 1, 3, 2}}, Rates: []float64{0.5, 0.25, 0.5}})
	for i, l := range x.links {
		if l.Rate != 1 || l.Uses != 3 {
			t.Errorf("link %d: %+v, want 1 GB/s of 3 uses", i, l)
		}
	}
	if p := x.ports[0]; p.Rate != 1.25 || p.Uses != 6 {
		t.Errorf("port: %+v, want 1.25 GB/s of 6 uses", p)
	}
}
