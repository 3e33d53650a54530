package machines

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// Every file and every cluster is a machine and every machine a valid graph of its own name; it
// says where its figures come from, or that they are nobody's.
func TestEveryMachine(t *testing.T) {
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var inFiles []string
	for _, e := range entries {
		inFiles = append(inFiles, strings.TrimSuffix(e.Name(), ".json"))
	}
	for name := range clusters {
		inFiles = append(inFiles, name)
	}
	slices.Sort(inFiles)
	if !slices.Equal(inFiles, Names()) {
		t.Errorf("files and clusters %v, names %v", inFiles, Names())
	}
	for _, name := range Names() {
		g, ok := Get(name)
		if !ok || g.Name != name {
			t.Errorf("%s: %v", name, g)
			continue
		}
		if a := About(name); !strings.Contains(a, "Source") && !strings.Contains(a, "Not ") &&
			!strings.Contains(a, "proposal") {
			t.Errorf("%s: no source: %s", name, a)
		}
		for _, l := range g.Links {
			if l.Source != topo.Declared || l.Kind == "" || l.LatencyUs <= 0 {
				t.Errorf("%s: link %+v", name, l)
			}
		}
		if again, _ := Get(name); &again.Links[0] == &g.Links[0] {
			t.Errorf("%s: two calls share memory", name)
		}
	}
	for _, name := range []string{"", "dgx", "../topo", "dgx1v.json"} {
		if _, ok := Get(name); ok || About(name) != "" {
			t.Errorf("there is a machine %q", name)
		}
	}
}

// Details has all that About says, in lines that fit a terminal.
func TestDetails(t *testing.T) {
	details := Details()
	words := strings.Join(strings.Fields(details), " ")
	for _, name := range Names() {
		if !strings.Contains(words, strings.Join(strings.Fields(About(name)), " ")) ||
			!strings.Contains(details, "\n"+name+", ") && !strings.HasPrefix(details, name+", ") {
			t.Errorf("%s is not there in full", name)
		}
	}
	for _, line := range strings.Split(details, "\n") {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

// What a rank can send at all, in GB/s: its links, or its port where that is
// less. These are the figures in the data sheets.
func TestRatePerRank(t *testing.T) {
	for name, want := range map[string]float64{
		"dgx1p": 80, "dgx1v": 150, "p3dn.24xlarge": 150, "p3dn": 50, "dgx2": 150, "dgxa100": 300, "dgxh100": 450,
		"mi300x": 448, "pcie8": 12,
		"dgxa100-x2": 325, "dgxa100-x4": 325, "dgxh100-x2": 500, "dgxh100-x4": 500, "mi250": 350, "mi250-x2": 366,
	} {
		g, _ := Get(name)
		out := make([]float64, g.Ranks)
		for _, l := range g.Links {
			out[l.A] += l.GBytesPerSecond
			out[l.B] += l.GBytesPerSecond
		}
		for _, p := range g.Ports {
			if len(p.Ranks) == 1 {
				out[p.Ranks[0]] = math.Min(out[p.Ranks[0]], p.GBytesPerSecond)
			}
		}
		for r, rate := range out {
			if rate != want {
				t.Errorf("%s: rank %d sends %v GB/s, want %v", name, r, rate, want)
			}
		}
	}
}

// Every builder makes trees on every machine; MXNet's planner died on p3dn. Of the
// dies of mi250 few are linked: from most roots there is no balanced tree.
func TestBuildersOnMachines(t *testing.T) {
	for _, name := range Names() {
		g, _ := Get(name)
		trees, err := tree.KL(g, 1, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for root, tr := range trees {
			if err := tr.Validate(g.Ranks); err != nil || testutil.MissingLinks(g, tr) >= 0 || tr.Root != root {
				t.Errorf("%s: root %d: %v\n%v", name, root, err, tr)
			}
			if name != "abilene" && !strings.HasPrefix(name, "mi250") && (tr.Round != nil) == (name == "p3dn") {
				t.Errorf("%s: root %d: balanced is %v: %s", name, root, tr.Round != nil, tr.Note)
			}
		}
		if _, err := tree.Rings(g, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
