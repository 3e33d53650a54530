package planner

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
)

// Every flag of a plan that is not in the table of options is for all
// algorithms; every option in it exists, and belongs to algorithms that exist.
func TestOptionsTable(t *testing.T) {
	r := &request{}
	f := pflag.NewFlagSet("plan", pflag.ContinueOnError)
	r.register(f)
	for _, o := range options {
		if f.Lookup(o.name) == nil {
			t.Errorf("there is no flag --%s", o.name)
		}
		for _, name := range o.of {
			if !slices.Contains(algorithmNames()[1:], name) {
				t.Errorf("--%s belongs to %s, which is no algorithm", o.name, name)
			}
		}
	}
	f.VisitAll(func(flag *pflag.Flag) {
		general := slices.Contains([]string{"collective", "algorithm"}, flag.Name)
		if general == slices.ContainsFunc(options, func(o option) bool { return o.name == flag.Name }) {
			t.Errorf("--%s: for all algorithms is %v", flag.Name, general)
		}
	})
}

// An option that means nothing to the algorithm is refused, for every pair of
// the two; the error names both, and the algorithms that it belongs to.
func TestOptionsOfOthers(t *testing.T) {
	value := map[string]string{
		"root": "3", "link-usage-penalty": "0.5", "array-bound": "1M", "max-trees": "2",
		"max-height": "3", "min-rate": "1", "height-tolerance": "0.1", "greedy": "true", "seed": "1",
	}
	for _, o := range options {
		for _, algorithm := range algorithmNames()[1:] {
			args := fmt.Sprintf("--graph dgx1p --bytes 8K --algorithm %s --%s=%s", algorithm, o.name, value[o.name])
			err := Plan(io.Discard, strings.Fields(args))
			if slices.Contains(o.of, algorithm) {
				if err != nil {
					t.Errorf("%s: %v", args, err)
				}
				continue
			}
			if exitcode.Of(err) != exitcode.Usage {
				t.Errorf("%s: %v, want an error of usage", args, err)
				continue
			}
			for _, want := range append(o.of, "--"+o.name, algorithm) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v does not say %q", args, err, want)
				}
			}
		}
	}
}

func TestOptionsThatDependOnOthers(t *testing.T) {
	for args, want := range map[string]string{
		// A collective with a root hangs every algorithm's trees up there.
		"--algorithm packing --root 3 --collective broadcast": "",
		"--algorithm ring --root 3 --collective reduce":       "",
		"--algorithm packing --root 3 --collective allgather": "--root means nothing to --algorithm packing with allgather",
		// A single tree has no other to leave links to.
		"--algorithm kl --root 3 --link-usage-penalty 0.5":               "one tree only",
		"--algorithm kl --collective broadcast --link-usage-penalty 0.5": "one tree only",
		"--algorithm exact --root 3 --array-bound 1M":                    "one tree only",
		"--algorithm packing --collective broadcast --array-bound 1M":    "",
		"--max-trees 2 --link-usage-penalty 1":                           "no algorithm has --link-usage-penalty (for kl) and --max-trees (for packing) together",
		"--root 2 --max-trees 2":                                         "no algorithm has --root",
		"--root 2 --max-trees 2 --collective reduce --seed 4":            "",
	} {
		err := Plan(io.Discard, strings.Fields("--graph dgx1p --bytes 8K "+args))
		if want == "" && err != nil || want != "" && (exitcode.Of(err) != exitcode.Usage || !strings.Contains(err.Error(), want)) {
			t.Errorf("plan %s: %v, want %q", args, err, want)
		}
	}
}

// auto takes no algorithm that would ignore an option.
func TestAutoHasTheOptions(t *testing.T) {
	for args, want := range map[string][]string{
		"--max-trees 2":          {"packing"},
		"--link-usage-penalty 1": {"kl"},
		"--root 5":               {"kl", "exact", "chain", "star"},
		"--greedy --seed 9":      {"packing"},
	} {
		p := readPlan(t, "--graph dgx1v --bytes 64K "+args)
		if !slices.Contains(want, p.Algorithm) {
			t.Errorf("%s: auto takes %s, want one of %v", args, p.Algorithm, want)
		}
		if strings.Contains(args, "--root") && (len(p.Trees) != 1 || p.Trees[0].Root != 5) {
			t.Errorf("%s: %+v", args, p.Trees)
		}
	}
}

// Limits that no tree keeps are told at the top of the text, in the note of the
// JSON form, and by sim; those that are kept are not.
func TestLimitsNotKept(t *testing.T) {
	for args, want := range map[string]string{
		"--max-height 1":                        "--max-height 1 is not kept: a tree has height 2",
		"--max-height 1 --greedy":               "--max-height 1 is not kept: a tree has height 2",
		"--min-rate 70":                         "--min-rate 70 is not kept: a tree has 50 GB/s",
		"--max-height 2 --min-rate 60":          "--min-rate 60 is not kept: a tree has 25 GB/s",
		"--max-height 2":                        "",
		"--max-trees 1":                         "",
		"--min-rate 5":                          "",
		"--max-height 1 --collective broadcast": "--max-height 1 is not kept",
	} {
		args = "--graph dgx1v --algorithm packing " + args
		p := readPlan(t, args+" --bytes 64K")
		if !strings.HasPrefix(p.Note, want) || want == "" && p.Note != "" {
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
			t.Errorf("%s: the picture does not say %q", args, want)
		}
		if table := run(t, simTo, args+" -b 1K -e 1K"); !strings.Contains(table, "# note: "+want) {
			t.Errorf("%s: sim does not say %q:\n%s", args, want, table)
		}
	}
}

// The JSON rows of sim have what the table has.
func TestSimJSON(t *testing.T) {
	const args = "--graph dgx1v -b 8 -e 4K -f 512 --inflight 1,50 --algorithm double-binary"
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
		if x.Collective != "allreduce" || x.Ranks != 8 || x.Bound < 85 || x.Note != "" {
			t.Errorf("%+v", x)
		}
	}
}

// Sizes have a unit wherever people read them.
func TestUnits(t *testing.T) {
	if text := run(t, planTo, "--graph dgx1p --algorithm double-binary --bytes 8"); !strings.Contains(text, "allreduce of 8 B on dgx1p") {
		t.Errorf("%.120s", text)
	}
	for bytes, want := range map[int64]string{8: "8 B", 1000: "1000 B", 64 << 20: "64 MiB", 1536: "1536 B", 3 << 10: "3 KiB", 1 << 30: "1 GiB", 1 << 41: "2 TiB"} {
		if got := inWords(bytes); got != want {
			t.Errorf("inWords(%d) = %s, want %s", bytes, got, want)
		}
	}
	for x, want := range map[float64]string{0.2: "1 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 20: "3.0 MiB", 5 << 40: "5.0 TiB"} {
		if got := about(x); got != want {
			t.Errorf("about(%v) = %s, want %s", x, got, want)
		}
	}
}
