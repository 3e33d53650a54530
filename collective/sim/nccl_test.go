package sim

import (
	"fmt"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// cluster returns hosts of perHost GPUs each, numbered host by host, with the
// links that a ring in that order and double binary trees between the hosts
// with a chain inside need, and the trees.
func cluster(t testing.TB, hosts, perHost int) (*topo.Graph, []topo.Tree) {
	t.Helper()
	n := hosts * perHost
	g := &topo.Graph{Name: fmt.Sprintf("%dx%d", hosts, perHost), Ranks: n, Hosts: make([]int, n)}
	seen := make(map[[2]int]bool)
	join := func(a, b int) {
		key := [2]int{min(a, b), max(a, b)}
		if a == b || seen[key] {
			return
		}
		seen[key] = true
		l := topo.Link{A: a, B: b, GBytesPerSecond: 12, Kind: Net}
		if a/perHost == b/perHost {
			l.GBytesPerSecond, l.Kind = 40, NVLink
		}
		g.Links = append(g.Links, l)
	}
	h := &plan.Hierarchy{}
	for r := range n {
		g.Hosts[r] = r / perHost
		join(r, (r+1)%n)
	}
	two := tree.DoubleBinary(hosts, tree.Current)
	h.Between = two[:]
	if hosts == 1 {
		h.Between = two[:1]
	}
	for _, b := range h.Between {
		for v, p := range b.Parent {
			if p >= 0 {
				join(v*perHost, p*perHost)
			}
		}
	}
	h.Hosts = plan.Hosts(g)
	for range hosts {
		h.Local = append(h.Local, []topo.Tree{chainTree(perHost)})
	}
	trees, _, err := h.Trees(g)
	if err != nil {
		t.Fatal(err)
	}
	return g, trees
}

func sequence(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// NCCL's cost model says what an AllReduce of no bytes takes; its constants,
// put on the steps of a plan, give the same sums without knowing the formula.
// The figures for LL were worked out from graph/tuning.cc by hand.
func TestNCCLLatencies(t *testing.T) {
	for _, c := range []struct {
		hosts, perHost int
		tree, ring     float64 // us
	}{
		{8, 1, 36.8, 76.6},
		{16, 8, 55.2, 311.6},
		{64, 8, 75.2, 1242.8},
		{4096, 6, 132.8, 63079.6},
	} {
		g, trees := cluster(t, c.hosts, c.perHost)
		got := price(t, mustTrees(t, plan.AllReduce, plan.Single, trees...), g, 0, NCCLTree(LL)).Us
		if !near(got, c.tree) {
			t.Errorf("%s tree: %v us, want %v", g.Name, got, c.tree)
		}
		r, err := PriceRing(plan.AllReduce, sequence(g.Ranks), g, 0, NCCLRing(LL, c.hosts, c.perHost))
		if err != nil {
			t.Fatal(err)
		}
		// The formula counts 2(hosts-1) hops between hosts, one lane has up to
		// two more in place of local ones.
		if r.Us < c.ring-1e-6 || r.Us > c.ring+2*2 {
			t.Errorf("%s ring: %v us, want %v", g.Name, r.Us, c.ring)
		}
		t.Logf("%-7s tree %8.1f us, ring %9.1f us: %.0f times", g.Name, got, r.Us, r.Us/got)
	}
}

// The price of one lane of a ring is that of the ring where a lane is one
// chunk; with more chunks, which hold each other up a little, it is at most a
// tenth less. The busiest link carries the same.
func TestPriceRing(t *testing.T) {
	for _, n := range []int{2, 3, 8, 24} {
		g := topo.UniformGraph(n)
		for i := range g.Links {
			g.Links[i].GBytesPerSecond = 10
			g.Links[i].LatencyUs = 3
		}
		ring := sequence(n)
		for _, kind := range []plan.Kind{plan.AllReduce, plan.AllGather, plan.ReduceScatter, plan.Broadcast, plan.Reduce} {
			p, err := plan.FromRings(kind, [][]int{ring}, nil, 0, plan.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, bytes := range []int64{0, 1 << 10, 1 << 18, 1 << 22} {
				bytes *= int64(n)
				m := Machine{Slots: 8, SlotBytes: 64 << 10, MinChunk: 8 << 10, StepUs: 0.5, ReduceGBs: 50, MessageUs: 0.25}
				want := price(t, p, g, bytes, m)
				got, err := PriceRing(kind, ring, g, bytes, m)
				if err != nil {
					t.Fatal(err)
				}
				least := 0.9
				if bytes <= int64(n)<<10 {
					least = 1 - 1e-9
				}
				if got.Us < least*want.Us || got.Us > want.Us*(1+1e-9) {
					t.Errorf("%v of %d bytes over %d: %v us by one lane, %v by all", kind, bytes, n, got.Us, want.Us)
				}
				if bytes > 0 && (len(got.Loads) != len(want.Loads) && kind == plan.AllReduce || got.Loads[0].Bytes != want.Loads[0].Bytes) {
					t.Errorf("%v of %d bytes over %d: loads %v, want %v", kind, bytes, n, got.Loads[0], want.Loads[0])
				}
			}
		}
	}
}
