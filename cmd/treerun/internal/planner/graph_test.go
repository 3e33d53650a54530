package planner

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// graphFile writes a graph file and returns its name.
func graphFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "g.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A file that is no valid graph is named, with the reason.
func TestUnreadable(t *testing.T) {
	folder := t.TempDir()
	broken := graphFile(t, `{"ranks": 2, "links": [{"a": 0, "b": 1, "gbytes_per_second": NaN}]}`)
	for name, want := range map[string]string{
		folder:        "cannot read graph " + folder + ": is no regular file, but a folder",
		broken:        "graph " + broken + `: links[0].gbytes_per_second: line 1, column 62: invalid character 'N'`,
		folder + "/x": "no such file, and no machine of that name",
	} {
		if err := Plan(&bytes.Buffer{}, []string{"--graph", name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// A graph may come from the standard input.
func TestStandardInput(t *testing.T) {
	f, err := os.Open(graphFile(t, `{"name": "piped", "ranks": 2, "links": [{"a": 0, "b": 1, "gbytes_per_second": 3}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func(was *os.File) {
		os.Stdin = was
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}(os.Stdin)
	os.Stdin = f
	if text := run(t, topoTo, "--graph -"); !strings.HasPrefix(text, "piped: 2 ranks, 1 link") {
		t.Errorf("%s", text)
	}
	if err := Plan(&bytes.Buffer{}, []string{"--graph", "-"}); err == nil ||
		!strings.Contains(err.Error(), "graph standard input: ") {
		t.Errorf("an empty input: %v", err)
	}
}

// One rank sends nothing: no rate and no bound is printed for it.
func TestOneRank(t *testing.T) {
	name := graphFile(t, `{"ranks": 1, "links": []}`)
	for _, kind := range kindNames() {
		args := "--graph " + name + " --collective " + kind
		text := run(t, planTo, args)
		if strings.Contains(text, "GB/s") || strings.Contains(text, "note") ||
			!strings.Contains(text, "on 1 rank: nothing to send") ||
			strings.Count(text, "no bound: one rank sends nothing") != 1 {
			t.Errorf("plan %s:\n%s", args, text)
		}
		if svg := run(t, planTo, args+" --format svg"); strings.Contains(svg, "1 ranks") || strings.Contains(svg, "GB/s<") {
			t.Errorf("plan %s: %s", args, svg)
		}
		table := run(t, simTo, args+" -b 8 -e 1K")
		if !strings.Contains(table, "# no bound: one rank sends nothing") || strings.Contains(table, "0 GB/s") {
			t.Errorf("sim %s:\n%s", args, table)
		}
		var row simRow
		if err := json.Unmarshal([]byte(run(t, simTo, args+" -b 8 -e 8 --format json")), &row); err != nil ||
			row.AlgBW != 0 || row.Bound != 0 {
			t.Errorf("sim %s: %+v, %v", args, row, err)
		}
	}
}

// TestDoubtsAreShown: topo and plan warn of a port that limits a rank too little, and not of those of a machine.
func TestDoubtsAreShown(t *testing.T) {
	g := topo.UniformGraph(4)
	g.Ports = []topo.Port{{Name: "socket", Ranks: []int{0, 1}, GBytesPerSecond: 2}}
	const want = `port "socket": 2 links of up to 1 GB/s lead from each of the ranks 0,1`
	for _, of := range []func(*bytes.Buffer, []string) error{topoTo, planTo} {
		if text := strings.Join(strings.Fields(run(t, of, "--graph "+fileOf(t, g))), " "); !strings.Contains(text, want) {
			t.Error(text)
		}
		if text := run(t, of, "--graph pcie4-x2"); strings.Contains(text, "links of up to") {
			t.Error(text)
		}
	}
	if p := readPlan(t, "--graph "+fileOf(t, g)); !strings.Contains(p.Note, want) {
		t.Errorf("note %q", p.Note)
	}
}
