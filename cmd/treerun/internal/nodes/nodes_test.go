//go:build linux

package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/treerun/treerun/cmd/treerun/internal/place"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// TestEnvironment reads testdata/environ.txt: blocks of variables, then "----",
// then the settings that they give.
func TestEnvironment(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "environ.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		input, want, found := strings.Cut(block, "----\n")
		if !found {
			t.Fatalf("no ---- in %q", block)
		}
		vars := map[string]string{}
		for line := range strings.Lines(input) {
			if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && line[0] != '#' {
				vars[name] = value
			}
		}
		f, err := FromEnvironment(func(name string) string { return vars[name] })
		got := "nothing"
		switch {
		case err != nil:
			got = err.Error()
		case f != nil:
			got = fmt.Sprintf("%s: node %d of %d, seed %q, job %q, %d per node, idle %v, sure %v", f.Scheduler, f.Node, f.Nodes,
				f.Seed, f.JobID, f.Default, f.Idle, f.Conclusive)
		}
		if d := cmp.Diff(strings.TrimSpace(want), got); d != "" {
			t.Errorf("%s%s", input, d)
		}
	}
}

func TestLayout(t *testing.T) {
	for _, c := range []struct {
		nodes, size, perNode int
		want                 string
	}{
		{3, 0, 0, "[2 3 4]"}, {3, 0, 2, "[2 2 2]"}, {3, 7, 0, "[3 2 2]"}, {3, 3, 0, "[1 1 1]"}, {3, 8, 3, "[3 3 2]"},
		{3, 9, 3, "[3 3 3]"},
		{3, 2, 0, "-np 2 leaves some of 3 nodes without a rank: start fewer"},
		{3, 10, 3, "-np 10 and --ppn 3 do not fit 3 nodes"},
		{3, 6, 3, "-np 6 and --ppn 3 do not fit 3 nodes"},
		{3, 0, 65536, "196608 ranks, at most 65536 are possible"},
	} {
		hosts, err := layout(c.nodes, c.size, c.perNode, []int{2, 3, 4})
		got := fmt.Sprint(countsOf(hosts))
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 20).Draw(t, "nodes")
		size := rapid.IntRange(nodes, 500).Draw(t, "size")
		hosts, err := layout(nodes, size, 0, nil)
		counts, sum := countsOf(hosts), 0
		for _, n := range counts {
			sum += n
		}
		if err != nil || sum != size || slices.Max(counts)-slices.Min(counts) > 1 ||
			!slices.IsSortedFunc(counts, func(a, b int) int { return b - a }) {
			t.Fatalf("%d ranks on %d nodes: %v, %v", size, nodes, counts, err)
		}
	})
}

// countsOf returns the number of ranks of each host; they must be consecutive.
func countsOf(hosts []place.ListedHost) (counts []int) {
	next := 0
	for _, h := range hosts {
		for _, r := range h.Ranks {
			if r != next {
				return nil
			}
			next++
		}
		counts = append(counts, len(h.Ranks))
	}
	return counts
}

func TestConfigCheck(t *testing.T) {
	good := Config{NodeHello: wire.NodeHello{Nodes: 2, Node: 1}, Seed: "[fd00::1]:4000", JobID: "x.1"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(p *Config) { p.Nodes = 0 }, "0 nodes"},
		{func(p *Config) { p.Nodes = job.MaxRanks + 1 }, "65537 nodes"},
		{func(p *Config) { p.Node = 2 }, "node rank 2 of 2 nodes, want 0 to 1"},
		{func(p *Config) { p.Node = -1 }, "node rank -1"},
		{func(p *Config) { p.Seed = "a" }, `seed "a": want HOST:PORT`},
		{func(p *Config) { p.Seed = ":1" }, "want HOST:PORT"},
		{func(p *Config) { p.Seed = "a:0" }, "port from 1 to 65535"},
		{func(p *Config) { p.Seed = "a:http" }, "port from 1 to 65535"},
		{func(p *Config) { p.JobID = "a b" }, "job id"},
	} {
		p := good
		c.change(&p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", p, err, c.want)
		}
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add("n[1-2]", "1(x2)", "2", "0")
	f.Add("n[1-", "2(x9999999999", "65536", "-1")
	f.Fuzz(func(t *testing.T, list, tasks, nodes, node string) {
		vars := map[string]string{
			"SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": nodes,
			"SLURM_STEP_NODELIST": list, "SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_STEP_NUM_NODES": nodes, "SLURM_NODEID": node,
		}
		found, err := FromEnvironment(func(name string) string { return vars[name] })
		if err != nil {
			return
		}
		if found.Nodes < 1 || found.Node >= found.Nodes || found.Default > job.MaxRanks || found.Check() != nil {
			t.Fatalf("%+v: %v", found, found.Check())
		}
	})
}
