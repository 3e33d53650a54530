package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

var rewrite = flag.Bool("rewrite", false, "write what is computed to testdata; commit only a change that you "+
	"understand")

// figures are the simulated figures, in the order in which they stand in the file: a line
// with the names of the columns, and rows, tabs between.
var figures = []struct {
	name string
	of   func(*testing.T) string
}{
	{"push-pull-1", pushPulls(1, powers(1<<10, 64<<20), all4...)},
	{"push-pull-50", pushPulls(50, powers(1<<10, 16<<20), all4...)},
	{"push-pull-150", pushPulls(150, powers(1<<10, 16<<20), all4...)},
	{"push-pull-32", pushPulls(32, powers(1<<10, 64<<20), all4...)},
	{"networks", networkTable},
	{"bound-vgg-16", boundSweep},
	{"resnet-50-fp32", training("resnet-50", false)},
	{"resnet-50-fp16", training("resnet-50", true)},
	{"vgg-16-fp32", training("vgg-16", false)},
	{"vgg-16-fp16", training("vgg-16", true)},
	{"inception-v3-fp32", training("inception-v3", false)},
	{"inception-v3-fp16", training("inception-v3", true)},
	{"alexnet-fp32", training("alexnet", false)},
	{"alexnet-fp16", training("alexnet", true)},
	{"tree-against-ring", treeAgainstRing},
	{"many-hosts", allReduceOverHosts},
	{"start-messages", startMessages},
	{"constants", constants},
}

var all4 = []string{"tree", "nccl ring", "parameter server", "multi-tree"}

// TestFigures computes the figures and compares them with testdata/figures.tsv, which
// scripts/report makes docs/lab/simulated.md of; by itself go test computes every other one.
func TestFigures(t *testing.T) {
	const file = "testdata/figures.tsv"
	old, err := os.ReadFile(file)
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for _, section := range strings.Split(string(old), "\n\n") {
		name, text, _ := strings.Cut(strings.TrimPrefix(section, "["), "]\n")
		want[name] = strings.TrimRight(text, "\n")
	}
	var all []string
	for i, f := range figures {
		if i%testutil.Count(2, 1) > 0 && !*rewrite {
			continue
		}
		got := strings.TrimRight(f.of(t), "\n")
		if got != want[f.name] && !*rewrite {
			t.Errorf("%s is\n%s\nand not what %s has: if you understand why, run with -rewrite and write "+
				"docs/lab/simulated.md anew", f.name, got, file)
		}
		all = append(all, "["+f.name+"]\n"+got)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(all, "\n\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// constants writes the constants that the figures stand on.
func constants(*testing.T) string {
	var b strings.Builder
	for _, m := range []Paper{MXNet(treeOps), MXNetNCCL(), NCCLTree(LL), NCCLRing(LL, 2, 6)} {
		fmt.Fprintf(&b, "%s\tlaunch %.4g, issue %.4g an operation, step %.4g", m.Name, m.LaunchUs, m.IssueUs, m.StepUs)
		if m.ReduceGBs > 0 {
			fmt.Fprintf(&b, ", reduce %.4g GB/s, copy %.4g GB/s", m.ReduceGBs, m.CopyGBs)
		}
		if m.Slots > 0 {
			fmt.Fprintf(&b, ", %d slots of %d bytes", m.Slots, m.SlotBytes)
		}
		if m.RateFactor > 0 {
			fmt.Fprintf(&b, ", %.3g of a link's rate", m.RateFactor)
		}
		for _, kind := range slices.Sorted(maps.Keys(m.LatencyUs)) {
			fmt.Fprintf(&b, ", latency of %s %.4g", kind, m.LatencyUs[kind])
			if rate, ok := m.AdapterGBs[kind]; ok {
				fmt.Fprintf(&b, ", all %s of a rank %.4g GB/s", kind, rate)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
