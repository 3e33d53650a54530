package planner

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/topo"
)

// fileOf writes a graph and returns its file.
func fileOf(t testing.TB, g *topo.Graph) string {
	t.Helper()
	data, err := g.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "graph.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// joined returns a path, or if complete is true a graph with links between all ranks.
func joined(ranks int, complete bool) *topo.Graph {
	g := &topo.Graph{Name: "joined", Ranks: ranks}
	for b := range ranks {
		for a := range b {
			if complete || a == b-1 {
				g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: float64(1 + (a*7+b*3)%3), LatencyUs: 5})
			}
		}
	}
	return g
}

// Plans that are left out because of their time are reported, with the way to request them.
func TestNoteOnSkippedAlgorithms(t *testing.T) {
	file := fileOf(t, joined(130, true))
	text := run(t, planTo, "--graph "+file+" --bytes 16M --device cuda")
	if !strings.Contains(text, "considered packing: not tried on 130 ranks with 8385 links for the work that it takes: "+
		"--algorithm packing does") {
		t.Errorf("%s", text)
	}
}

// A graph of thousands of ranks has a plan, or an error with the reason.
func TestManyRanksOnAPath(t *testing.T) {
	file := fileOf(t, joined(1030, false))
	if p := readPlan(t, "--graph "+file+" --bytes 1K"); p.PredictedUs <= 0 || len(p.Trees) == 0 {
		t.Errorf("1030 ranks: %s, %v us", p.Algorithm, p.PredictedUs)
	}
	file = fileOf(t, joined(4100, false))
	err := Plan(&strings.Builder{}, strings.Fields("--collective allgather --graph "+file))
	if cmdline.ExitCode(err) != cmdline.ExitUsage {
		t.Errorf("allgather: %v, want the reason", err)
	}
}

// A text of many deep trees ends, and reports the number of trees that it leaves out.
func TestManyDeepTrees(t *testing.T) {
	file := fileOf(t, joined(160, false))
	for _, algorithm := range []string{"kl"} {
		text := run(t, planTo, fmt.Sprintf("--graph %s --algorithm %s --bytes 1M", file, algorithm))
		if len(text) > 6<<20 || !strings.Contains(text, "left out here for its length") {
			t.Errorf("%s: %d bytes", algorithm, len(text))
		}
	}
}

// TestRatesAgree: the rate in JSON is that of the text, whatever the plan, and of twelve GPUs behind PCIe that of the
// one tree that a Broadcast uses.
func TestRatesAgree(t *testing.T) {
	host := &topo.Graph{Ranks: 12}
	for a := range host.Ranks {
		host.Ports = append(host.Ports, topo.Port{Name: fmt.Sprint("gpu ", a), Ranks: []int{a}, GBytesPerSecond: 16})
		for b := range a {
			host.Links = append(host.Links, topo.Link{A: b, B: a, GBytesPerSecond: 16})
		}
	}
	text := regexp.MustCompile(`(?m)^rate (?:of the \d+ used for this message: )?(\S+) GB/s`)
	for _, graph := range []string{fileOf(t, host), "dgx1v", "dgxh100"} {
		for _, collective := range []string{"allreduce", "broadcast --root 3", "reduce", "allgather", "alltoall"} {
			for _, more := range []string{" --bytes 8", " --bytes 256M --device cuda"} {
				args := fmt.Sprintf("--graph %s --collective %s%s", graph, collective, more)
				p := readPlan(t, args)
				found := text.FindStringSubmatch(run(t, planTo, args))
				if found == nil != (p.Rate == 0) || found != nil && found[1] != fmt.Sprintf("%.4g", p.Rate) {
					t.Errorf("%s: rate %v in JSON, %q in the text", args, p.Rate, found)
				}
				if len(p.Trees) == 0 && p.Algorithm == "direct" && collective != "alltoall" && p.Rate == 0 {
					t.Errorf("%s: rate %v of %v", args, p.Rate, p.Bound)
				}
			}
		}
	}
	if p := readPlan(t, "--graph "+fileOf(t, host)+" --collective broadcast --bytes 256M --device cuda"); p.Rate < 15 {
		t.Errorf("Broadcast behind PCIe: %v GB/s, want 16", p.Rate)
	}
}

// The rate that is printed first is that of the trees or rings that this message
// uses.
func TestRateOfChosenPlan(t *testing.T) {
	for args, want := range map[string][]string{
		"--graph pcie8 --collective broadcast --algorithm ring --bytes 64M": {
			"rate 9 GB/s: 100 % of the bound"},
		"--graph dgx1v --algorithm multi:one --bytes 64M": {"rate of the 1 used for this message: 25 GB/s",
			"rate of all 8 together: 80 GB/s"},
		"--graph dgx1v --algorithm packing --bytes 1M": {"of that rate, which full links would have"},
	} {
		text := run(t, planTo, args)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: no %q in\n%s", args, w, text)
			}
		}
	}
}
