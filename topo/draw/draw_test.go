package draw

import (
	"flag"
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

// What is drawn of the square, as text and DOT, stands in testdata.
func TestGolden(t *testing.T) {
	g, p := square()
	for name, got := range map[string]string{
		"square.txt": Text(g, p), "square-graph.txt": Text(g, Plan{}),
		"square.dot": DOT(g, p),
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

// Names from graph files cannot break out of the text of a picture.
func TestHostileNames(t *testing.T) {
	g, p := square()
	evil := "\"]};</title><script>&\\\n"
	g.Name, g.Ports[0].Name, g.Links[0].Kind, p.Notes[0] = evil, evil, evil, evil
	dot := DOT(g, p)
	if !strings.HasPrefix(dot, `digraph "\"]};</title><script>&\\\n" {`+"\n") {
		t.Errorf("the name in DOT: %.60s", dot)
	}
}

// Trees over links that the graph does not have are drawn without them, and
// the links are named.
func TestAbsentLinks(t *testing.T) {
	g, p := square()
	p.Trees[0].Parent = []int{-1, 0, 0, 0}
	if s := Text(g, p); !strings.Contains(s, "the graph has no link 3-0\n") {
		t.Errorf("text:\n%s", s)
	}
}

// What a plan does not keep of what was asked for stands below the title.
func TestWarnings(t *testing.T) {
	g, p := square()
	p.Warnings = []string{"--max-height 1 is not kept", "word"}
	if dot := DOT(g, p); !strings.Contains(dot, `label="square\n--max-height 1 is not kept\nword"`) {
		t.Errorf("%.400s", dot)
	}
	if text := Text(g, p); !strings.Contains(text, "\nnote: --max-height 1 is not kept\nnote: word") {
		t.Errorf("%.400s", text)
	}
}

// One is no plural.
func TestOneRank(t *testing.T) {
	if dot := DOT(&topo.Graph{Ranks: 1}, Plan{}); !strings.Contains(dot, `label="1 rank"`) {
		t.Errorf("%s", dot)
	}
}

// Every link of a tree has an arrow, whatever the number of hosts; tables stay short.
func TestSizes(t *testing.T) {
	g := topo.UniformGraph(256) // 32 hosts of 8
	for r := range 256 {
		g.Hosts = append(g.Hosts, r/8)
	}
	path := topo.Tree{Parent: make([]int, 256)}
	for r := range path.Parent {
		path.Parent[r] = r - 1
	}
	s := DOT(g, Plan{Trees: []topo.Tree{path}, Rates: []float64{1}})
	if got := strings.Count(s, "tooltip"); got != 255 {
		t.Errorf("32 hosts: %d arrows for 255 links of a tree", got)
	}
	if s := Text(g, Plan{Trees: []topo.Tree{path}, Rates: []float64{1}}); strings.Count(s, "load GB/s  share") != 1 ||
		!strings.Contains(s, "and 191 more, less busy") {
		t.Error("the table of 255 links")
	}
}
