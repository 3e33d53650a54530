package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// The same arguments print the same bytes: every subcommand, in every format;
// every algorithm, and every collective, on graphs with ports, hosts and ties.
func TestDeterministic(t *testing.T) {
	same := func(name string, command func() string) {
		t.Helper()
		if a, b := command(), command(); a != b || a == "" {
			t.Errorf("%s differs from run to run", name)
		}
	}
	planned := func(args string, formats ...string) {
		t.Helper()
		for _, format := range formats {
			same("plan "+args+" "+format, func() string { return run(t, planTo, args+" --bytes 1M --format "+format) })
		}
	}
	for _, graph := range []string{"pcie8", "p3dn", "dgx1v-x2", "abilene"} {
		for _, format := range graphFormats {
			same("topo "+graph+" "+format, func() string { return run(t, topoTo, "--graph "+graph+" --format "+format) })
		}
	}
	for i, name := range planner.Algorithms() {
		if i%testutil.Count(4, 1) > 0 {
			continue
		}
		if args := "--graph dgx1v --algorithm " + name; offered(t, args) {
			planned(args, "text")
		}
	}
	for i, kind := range kindNames() {
		if i%testutil.Count(4, 1) > 0 {
			continue
		}
		planned("--graph ethernet4x4 --collective "+kind, graphFormats...)
	}
	planned("--graph p3dn --seed 7 --algorithm packing --greedy", graphFormats...)
	planned("--graph p3dn --seed 7 --algorithm kl", "json")
	for _, format := range []string{"text", "json"} {
		same("sim "+format, func() string {
			return run(t, simTo, "--graph dgx1v -b 64 -e 64K -f 1024 --inflight 1,3 --format "+format)
		})
	}
}

// hostsGraph returns a complete graph of hosts with the given numbers of ranks; the ranks of a host share a card when
// there are several hosts.
func hostsGraph(sizes []int) *topo.Graph {
	g := &topo.Graph{Name: fmt.Sprint(sizes)}
	var members [][]int
	for h, n := range sizes {
		members = append(members, nil)
		for range n {
			members[h] = append(members[h], g.Ranks)
			g.Hosts = append(g.Hosts, h)
			g.Ranks++
		}
	}
	for a := range g.Ranks {
		for b := a + 1; b < g.Ranks; b++ {
			l := topo.Link{A: a, B: b, GBytesPerSecond: 20, LatencyUs: 0.5, Kind: "shm"}
			if g.Hosts[a] != g.Hosts[b] {
				l.GBytesPerSecond, l.LatencyUs, l.Kind = 2, 20, "tcp"
			}
			g.Links = append(g.Links, l)
		}
	}
	for h, ranks := range members {
		if len(members) > 1 {
			g.Ports = append(g.Ports, topo.Port{Name: fmt.Sprintf("card %d", h), Ranks: ranks, GBytesPerSecond: 2})
		}
	}
	return g
}

// Hosts may have different numbers of ranks, one rank each, or be the only one: every collective has a plan that is
// verified before it is printed, and that reaches at least three fifths of its bound.
func TestUnevenHosts(t *testing.T) {
	for _, sizes := range [][]int{{3, 1, 4}, {1, 1, 1}, {4}, {1, 5}} {
		g := hostsGraph(sizes)
		text, err := indented(g)
		if err != nil {
			t.Fatal(err)
		}
		name := graphFile(t, text)
		for _, kind := range []string{"allreduce", "reduce", "broadcast", "allgather", "reducescatter"} {
			args := fmt.Sprintf("--graph %s --algorithm hierarchical --collective %s --bytes 16M", name, kind)
			if !offered(t, args) {
				continue
			}
			p := readPlan(t, args)
			if p.Rate < 0.6*p.Bound || p.Rate > p.Bound*(1+1e-9) {
				t.Errorf("%s over hosts of %v: rate %v, bound %v", kind, sizes, p.Rate, p.Bound)
			}
			share := 0.0
			for _, x := range p.Trees {
				share += x.Share
				if len(x.Parent) != g.Ranks || !slices.Contains(x.Parent, -1) {
					t.Errorf("%s over hosts of %v: tree %+v", kind, sizes, x)
				}
			}
			if share < 1-1e-9 || share > 1+1e-9 {
				t.Errorf("%s over hosts of %v: shares sum up to %v", kind, sizes, share)
			}
		}
	}
}

// 1,024 ranks have only the links of the double binary trees: the plan uses these, and 8 bytes cost the latency of the
// way up and down.
func TestManyRanks(t *testing.T) {
	const n, us = 1024, 5.0
	g := &topo.Graph{Ranks: n}
	seen := map[[2]int]bool{}
	two := tree.DoubleBinary(n)
	for _, tr := range two {
		for v, p := range tr.Parent {
			key := [2]int{min(v, p), max(v, p)}
			if p >= 0 && !seen[key] {
				seen[key] = true
				g.Links = append(g.Links, topo.Link{A: key[0], B: key[1], GBytesPerSecond: 12.5, LatencyUs: us})
			}
		}
	}
	text, err := indented(g)
	if err != nil {
		t.Fatal(err)
	}
	var row simRow
	if err := json.Unmarshal([]byte(run(t, simTo, "--graph "+graphFile(t, text)+" -b 8 -e 8 --cores 0 --format json")),
		&row); err != nil {
		t.Fatal(err)
	}
	least := 2 * us * float64(two[0].Depth())
	if !strings.HasPrefix(row.Algorithm, "double-binary") || row.Ranks != n || float64(row.PredictedUs) < least ||
		float64(row.PredictedUs) > least*1.2 {
		t.Errorf("%+v, want about %v us", row, least)
	}
}
