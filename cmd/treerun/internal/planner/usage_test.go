package planner

import (
	"bytes"
	"strings"
	"testing"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// Wrong usage has the exit code of usage, and the error describes valid usage.
func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                                "no graph given",
		"--graph dgx1v extra":             "unexpected argument",
		"dgx1v":                           "did you mean --graph dgx1v?",
		"--graph DGX1V":                   "did you mean dgx1v?",
		"--graph dgx3":                    "did you mean dgx2?",
		"--graph dgx1v --algorithm best":  `unknown algorithm "best": want one of flat, hierarchical`,
		"--graph dgx1v --collective sums": "want allreduce",
		"--graph dgx1v --root 8 --collective reduce":              "ranks 0 to 7",
		"--graph dgx1v --bytes 0":                                 "want a size",
		"--graph dgx1v --link-usage-penalty NaN":                  "from 0 to 1",
		"--graph dgx1v --format png":                              "want text, json or svg",
		"--graph dgx1v --max-trees -1":                            "want a whole number from 1 to 4096",
		"--graph dgx1v --height-tolerance 1":                      "below 1",
		"--graph dgx1v --max-height -2":                           "want a number from 0",
		"--graph dgx1v --min-rate Inf":                            "want a number from 0",
		"--graph dgx1v --min-rate nan":                            "want a number from 0",
		"--graph dgx1v --root 1":                                  "allreduce has no root",
		"--graph dgx1v --max-trees 0":                             "want a whole number from 1 to 4096",
		"--graph dgx1v --cores -1":                                "want a whole number from 0",
		"--graph dgx1v --device tpu":                              "want cpu or cuda",
		"--graph dgx1v --algorithm ring,seed=1":                   "option seed means nothing to algorithm ring",
		"--graph dgx1v --algorithm packing --collective alltoall": "packing has no plan for alltoall here: data goes",
		"--graph dgx1v --root -1 --collective reduce":             "ranks 0 to 7",
		"--graph dgx1v --root 1.5":                                "want a whole number",
		"-np 8":                                                   "plan takes no -np: its ranks are those of --graph",
		"--graph dgx1v --seed -5":                                 `--seed "-5": want a whole number from 0 to`,
		"--graph dgx1v --seed 1e3":                                "want a whole number",
		"--graph dgx1v --no-such-flag":                            "unknown flag",
	} {
		err := Plan(&bytes.Buffer{}, strings.Fields(args))
		if cmdline.ExitCode(err) != cmdline.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("plan %s: %v, want %q", args, err, want)
		}
	}
	for _, args := range []string{"-b 2 -e 1", "-f 1", "-f NaN", "-f Inf", "-f x", "--inflight 0", "--inflight 1001",
		"--inflight x", "--inflight 1,,2", "--format svg"} {
		err := Sim(&bytes.Buffer{}, strings.Fields("--graph dgx1v "+args))
		if cmdline.ExitCode(err) != cmdline.ExitUsage || strings.Contains(err.Error(), "strconv") {
			t.Errorf("sim %s: %v", args, err)
		}
	}
}
