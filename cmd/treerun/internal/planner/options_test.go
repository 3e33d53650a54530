package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/collective/planner"
)

// An option without a meaning for the algorithm is refused, for every pair of the two; the error names both, and the
// algorithms that it belongs to.
func TestOptionsOfOthers(t *testing.T) {
	value := map[string]string{
		"link-usage-penalty": "0.5", "max-trees": "2", "delay": "us",
		"max-height": "3", "min-rate": "1", "height-tolerance": "0.1", "greedy": "true", "seed": "1",
	}
	for _, o := range planner.Flags() {
		for _, algorithm := range planner.Algorithms() {
			args := fmt.Sprintf("--graph dgx1p --bytes 8K --algorithm %s --%s=%s", algorithm, o.Name, value[o.Name])
			if value[o.Name] == "" {
				continue // of all
			}
			err := Plan(io.Discard, strings.Fields(args))
			if slices.Contains(o.Takers, algorithm) {
				if err != nil && !strings.Contains(err.Error(), "has no plan for") {
					t.Errorf("%s: %v", args, err)
				}
				continue
			}
			if cmdline.ExitCode(err) != cmdline.ExitUsage {
				t.Errorf("%s: %v, want an error of usage", args, err)
				continue
			}
			for _, want := range append(o.Takers, o.Name, algorithm) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v lacks %q", args, err, want)
				}
			}
		}
	}
}

// The chosen plan has the options that were given.
func TestChoiceKeepsOptions(t *testing.T) {
	for args, want := range map[string][]string{
		"--max-trees 2":          {"packing"},
		"--link-usage-penalty 1": {"kl"},
		"--greedy --seed 9":      {"packing"},
	} {
		p := readPlan(t, "--graph dgx1v --bytes 64K "+args)
		if !slices.Contains(want, p.Algorithm) {
			t.Errorf("%s: %s is taken, want one of %v", args, p.Algorithm, want)
		}
	}
}

// Variables and flags combine, and the flag of the same meaning wins; a graph may be a text.
func TestJobEnvironment(t *testing.T) {
	for _, c := range []struct{ variable, args, want string }{
		{"packing,max-trees=4", "", "packing,max-trees=4"},
		{"packing,max-trees=4", "--plan-seed 7", "packing,max-trees=4,seed=7"},
		{"packing,max-trees=4", "--max-trees 2", "packing,max-trees=2"},
		{"packing,max-trees=4", "--algorithm ring", "ring"},
		{",max-trees=4", "--algorithm packing", "packing,max-trees=4"},
		{"packing,seed=7,greedy=true", "--plan-seed 0 --greedy=false", "packing,greedy=false,seed=0"},
		{"star,stable=true", "--stable=false", "star,stable=false"},
	} {
		t.Setenv("TREERUN_ALGORITHM", c.variable)
		t.Setenv("TREERUN_GRAPH", ` {"ranks": 2, "links": [{"a": 0, "b": 1, "gbytes_per_second": 1}]}`)
		var j JobFlags
		f := pflag.NewFlagSet("run", pflag.ContinueOnError)
		j.Define(f)
		s := make(map[string]string)
		if err := errors.Join(f.Parse(strings.Fields(c.args)), j.Settings(s, 2)); err != nil {
			t.Fatalf("%s with %s: %v", c.variable, c.args, err)
		}
		if s["algorithm"] != c.want || !strings.Contains(s["graph"], `"ranks":2`) {
			t.Errorf("%s with %s: %v, want %s", c.variable, c.args, s, c.want)
		}
	}
}

// A plan without a price has none in the rows of sim.
func TestSimWithoutPrice(t *testing.T) {
	for _, args := range []string{"--graph dgx1v --collective alltoall -b 1K -e 1K"} {
		row := run(t, simTo, args+" --format json")
		if !strings.Contains(row, `"predicted_us":null,"algbw_gbs":null,"busbw_gbs":null`) {
			t.Errorf("%s: %s", args, row)
		}
		if f := strings.Fields(run(t, simTo, args)); !slices.Contains(f, "-") {
			t.Errorf("%s: %v", args, f)
		}
	}
	if text := run(t, simTo, "--graph dgx1v -b 8 -e 8 --max-trees 2"); !strings.Contains(text,
		"algorithm by price,max-trees=2") {
		t.Errorf("%.200s", text)
	}
}

// Limits that no tree keeps are reported at the top of the text, in the note of the JSON form, and by sim; those that
// are kept are not.
func TestLimitsNotKept(t *testing.T) {
	for args, want := range map[string]string{
		"--max-height 1":                        "no spanning tree has a height of 1 links; the least is 2 links",
		"--max-height 1 --greedy":               "no spanning tree has a height of 1 links",
		"--min-rate 70":                         "no tree has a rate of 70 GB/s; the widest that was found has 50",
		"--max-height 2 --min-rate 60":          "no tree has a rate of 60 GB/s; the widest that was found has 25",
		"--max-height 2":                        "",
		"--max-trees 1":                         "",
		"--min-rate 5":                          "",
		"--max-height 1 --collective broadcast": "no spanning tree has a height of 1 links",
	} {
		args = "--graph dgx1v --algorithm packing " + args
		p := readPlan(t, args+" --bytes 64K")
		if !strings.HasPrefix(p.Note, want) || want == "" && !strings.HasPrefix(p.Note, "assumed: ") {
			t.Errorf("%s: note %q, want %q", args, p.Note, want)
		}
		lines := strings.Split(run(t, planTo, args+" --bytes 64K"), "\n")
		if want == "" && strings.HasPrefix(lines[1], "note") || want != "" && !strings.HasPrefix(lines[1], "note: "+want) {
			t.Errorf("%s: the text begins with\n%s\nwant %q", args, strings.Join(lines[:3], "\n"), want)
		}
		if want == "" {
			continue
		}
		if svg := run(t, planTo, args+" --bytes 64K --format svg"); !strings.Contains(svg, want) {
			t.Errorf("%s: the picture lacks %q", args, want)
		}
		if table := run(t, simTo, args+" -b 1K -e 1K"); !strings.Contains(table, "# note: "+want) {
			t.Errorf("%s: sim does not print %q:\n%s", args, want, table)
		}
	}
}

// The JSON rows of sim have the contents of the table.
func TestSimJSON(t *testing.T) {
	const args = "--graph dgx1v -b 8 -e 4K -f 512 --inflight 1,50 --algorithm ring"
	var rows [][]string
	for _, line := range strings.Split(run(t, simTo, args), "\n") {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			rows = append(rows, f)
		}
	}
	d := json.NewDecoder(strings.NewReader(run(t, simTo, args+" --format json")))
	d.DisallowUnknownFields()
	for i := 0; ; i++ {
		var x simRow
		if err := d.Decode(&x); err == io.EOF {
			if i != len(rows) || i != 4 {
				t.Errorf("%d objects, %d rows", i, len(rows))
			}
			return
		} else if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%d %d %s %s %d %d %.2f %.3f %.3f %s %d/%d", x.Bytes, x.Count, x.Type, x.Op, x.Root, x.InFlight,
			x.PredictedUs, x.AlgBW, x.BusBW, x.Algorithm, x.TreesUsed, x.Trees)
		if want := strings.Join(rows[i], " "); got != want {
			t.Errorf("object %s, row %s", got, want)
		}
		if x.Collective != "allreduce" || x.Ranks != 8 || x.Bound < 85 || x.Digest == "" ||
			!strings.HasPrefix(x.Note, "assumed: ") {
			t.Errorf("%+v", x)
		}
	}
}

// Sizes have a unit in all output for users.
func TestUnits(t *testing.T) {
	if text := run(t, planTo, "--graph dgx1p --algorithm ring --bytes 8"); !strings.Contains(text,
		"allreduce of 8 B on dgx1p") {
		t.Errorf("%.120s", text)
	}
}
