package topo_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// Every file is a valid graph of its own name, of as many ranks as its text has; the text gives the source of its
// figures, or that they have none.
func TestEveryMachine(t *testing.T) {
	if n := strings.Count(topo.MachineDetails, " ranks\n"); n != len(topo.Machines()) {
		t.Errorf("texts of %d machines, want those of %v", n, topo.Machines())
	}
	for _, name := range topo.Machines() {
		g, ok := topo.Machine(name)
		if !ok || g.Name != name ||
			!strings.Contains("\n"+topo.MachineDetails, fmt.Sprintf("\n%s, %d ranks\n", name, g.Ranks)) {
			t.Errorf("%s: %v", name, g)
			continue
		}
		if a := topo.AboutMachine(name); !strings.Contains(a, "Source") && !strings.Contains(a, "Not ") &&
			!strings.Contains(a, "proposal") {
			t.Errorf("%s: no source: %s", name, a)
		}
		for _, l := range g.Links {
			if l.Source != topo.Declared || l.Kind == "" || l.LatencyUs <= 0 {
				t.Errorf("%s: link %+v", name, l)
			}
		}
		if again, _ := topo.Machine(name); &again.Links[0] == &g.Links[0] {
			t.Errorf("%s: two calls share memory", name)
		}
	}
	for _, name := range []string{"", "dgx", "../topo", "dgx1v.json"} {
		if _, ok := topo.Machine(name); ok || topo.AboutMachine(name) != "" {
			t.Errorf("there is a machine %q", name)
		}
	}
}

// The texts fit a terminal.
func TestDetails(t *testing.T) {
	for line := range strings.Lines(topo.MachineDetails) {
		if n := utf8.RuneCountInString(line); n > 81 || strings.Contains(line, "\t") {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	about := topo.AboutMachine("p3.16xlarge")
	if !strings.HasPrefix(about, "Amazon p3.16xlarge as") || !strings.HasSuffix(about, "than they are.") {
		t.Errorf("p3.16xlarge: %s", about)
	}
}

// The total rate at which a rank can send, in GB/s: its links, or its port where that is less. These are the figures in
// the data sheets.
func TestRatePerRank(t *testing.T) {
	for name, want := range map[string]float64{
		"dgx1p": 80, "dgx1v": 150, "p3dn.24xlarge": 150, "p3dn": 50, "dgx2": 150, "dgxa100": 300, "dgxh100": 450,
		"mi300x": 448, "pcie8": 12,
		"dgxa100-x2": 325, "dgxa100-x4": 325, "dgxh100-x2": 500, "dgxh100-x4": 500, "mi250": 350, "mi250-x2": 366,
	} {
		g, _ := topo.Machine(name)
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

// Every builder makes trees on every machine; MXNet's planner died on p3dn. Of the dies of mi250 few are linked, and of
// the GPUs of two hosts on rails: from most roots there is no balanced tree.
func TestBuildersOnMachines(t *testing.T) {
	few := []string{"abilene", "mi250", "mi250-x2", "dgx1v-x2", "pcie4-x2"}
	for _, name := range topo.Machines() {
		g, _ := topo.Machine(name)
		trees := tree.KL(g, 1, 0)
		for root, tr := range trees {
			if err := tr.Validate(g.Ranks); err != nil || testutil.MissingLinks(g, tr) >= 0 || tr.Root != root {
				t.Errorf("%s: root %d: %v\n%v", name, root, err, tr)
			}
			if !slices.Contains(few, name) && (tr.Round != nil) == (name == "p3dn") {
				t.Errorf("%s: root %d: balanced is %v: %s", name, root, tr.Round != nil, tr.Note)
			}
		}
		if _, _, err := tree.Rings(g, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
