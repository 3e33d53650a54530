package planner

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/topo"
)

// measured returns the result of a measurement of n ranks.
func measured(n int) *topo.Graph {
	g := topo.UniformGraph(n)
	g.Name = "measured"
	for i := range g.Links {
		g.Links[i] = topo.Link{A: g.Links[i].A, B: g.Links[i].B, GBytesPerSecond: 10.5, LatencyUs: 0.2, Kind: "shm",
			Source: topo.Measured}
	}
	return g
}

// Without --graph the host is measured, with the number of ranks of -np, in every notation; the graph comes out in
// every format.
func TestTopoMeasures(t *testing.T) {
	for args, want := range map[string]int{"": 0, "-np 3": 3, "-np=3": 3, "-np3": 3, "-n 3": 3, "--np 3": 3,
		"-f json -np 5": 5} {
		asked := -1
		var b bytes.Buffer
		code, err := Topo(&b, strings.Fields(args), func(n int, _ *Places) (*Measured, int, error) {
			asked = int(n)
			return &Measured{Graph: measured(max(int(n), 2))}, 0, nil
		})
		if err != nil || code != 0 || asked != want || !strings.Contains(b.String(), "measured") {
			t.Errorf("topo %s: it requested %d ranks, want %d; code %d, %v\n%s", args, asked, want, code, err, &b)
		}
	}
	for _, format := range []string{"text", "json", "svg"} {
		var b bytes.Buffer
		if _, err := Topo(&b, []string{"-np", "4", "-f", format},
			func(n int, _ *Places) (*Measured, int, error) {
				return &Measured{Graph: measured(int(n))}, 0, nil
			}); err != nil {
			t.Fatal(err)
		}
		if format == "json" {
			if g, err := topo.ParseGraph(b.Bytes()); err != nil || g.Digest() != measured(4).Digest() {
				t.Errorf("%v, %v", g, err)
			}
		}
		if n := strings.Count(b.String(), "0.2"); (format == "text" || format == "json") && n < 6 ||
			!strings.Contains(b.String(), "10.5") {
			t.Errorf("%s does not have the figures:\n%s", format, &b)
		}
	}
}

// When the job fails, its code is topo's, and nothing is printed; a measurement that cannot be made is an error.
func TestTopoJobFails(t *testing.T) {
	var b bytes.Buffer
	code, err := Topo(&b, nil, func(int, *Places) (*Measured, int, error) { return nil, 137, nil })
	if code != 137 || err != nil || b.Len() > 0 {
		t.Errorf("code %d, %v, printed %s", code, err, &b)
	}
	broken := errors.New("no pipes")
	if _, err := Topo(&b, nil, func(int, *Places) (*Measured, int, error) {
		return nil, 0,
			broken
	}); !errors.Is(err, broken) || b.Len() > 0 {
		t.Errorf("%v, printed %s", err, &b)
	}
}

func TestTopoUsage(t *testing.T) {
	for args, want := range map[string]string{
		"-np 0":               `"0"`,
		"-np -2":              `"-2"`,
		"-np x":               `--np "x": want a whole number from 1 to 65536`,
		"-np 2 --graph dgx1v": "not both",
		"-np 2 --format png":  "want text, json or svg",
		"-np 2 extra":         `unexpected argument "extra"`,
	} {
		_, err := Topo(&bytes.Buffer{}, strings.Fields(args), func(int, *Places) (*Measured, int, error) {
			t.Errorf("topo %s measures", args)
			return nil, 0, nil
		})
		if cmdline.ExitCode(err) != cmdline.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("topo %s: %v, want %q", args, err, want)
		}
	}
}

// The help has every field of a graph file, all machines with their descriptions, and the limits; its example is a
// graph.
func TestTopoHelp(t *testing.T) {
	help := run(t, topoTo, "--help")
	for _, want := range []string{"ranks", "hosts", "links", "ports", "gbytes_per_second", "latency_us", "kind", "source",
		"name", "65536", "1024"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help lacks %q", want)
		}
	}
	words := strings.Join(strings.Fields(help), " ")
	for _, name := range topo.Machines() {
		if !strings.Contains(words, name+", ") ||
			!strings.Contains(words, strings.Join(strings.Fields(topo.AboutMachine(name)), " ")) {
			t.Errorf("the help does not describe all of %s", name)
		}
	}
	for k, line := range strings.Split(help, "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("line %d of the help has %d characters: %s", k+1, n, line)
		}
	}
	example := graphHelp[strings.Index(graphHelp, "{"):]
	example = example[:strings.Index(example, "\n\n")]
	g, err := topo.ParseGraph([]byte(example))
	if err != nil || g.Ranks != 4 || len(g.Ports) != 1 {
		t.Errorf("the example: %+v, %v", g, err)
	}
	if !slices.Contains(g.Links, topo.Link{A: 1, B: 2, GBytesPerSecond: 1.25, LatencyUs: 30, Kind: "tcp",
		Source: topo.Declared}) {
		t.Errorf("links of the example: %+v", g.Links)
	}
}
