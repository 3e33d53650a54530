package sim

import (
	"cmp"
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
	for r := range n {
		g.Hosts[r] = r / perHost
		join(r, (r+1)%n)
	}
	between := tree.DoubleBinary(hosts)
	if hosts == 1 {
		between = between[:1]
	}
	for _, b := range between {
		for v, p := range b.Parent {
			if p >= 0 {
				join(v*perHost, p*perHost)
			}
		}
	}
	return g, overHosts(between, chainTree(perHost))
}

// overHosts returns the trees over all ranks that have a local tree in every host, and
// its root in the host's place in a tree between hosts.
func overHosts(between []topo.Tree, local topo.Tree) (list []topo.Tree) {
	perHost := len(local.Parent)
	for _, b := range between {
		t := topo.Tree{Root: b.Root*perHost + local.Root}
		for h, up := range b.Parent {
			for _, p := range local.Parent {
				switch {
				case p >= 0:
					p += h * perHost
				case up >= 0:
					p = up*perHost + local.Root
				}
				t.Parent = append(t.Parent, p)
			}
		}
		list = append(list, t)
	}
	return list
}

func sequence(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// NCCL's cost model gives the time of an AllReduce of no bytes; its constants, put on the steps of a plan, give the
// same sums without knowing the formula. The figures for LL were worked out from graph/tuning.cc by hand.
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
		ring := ringUs(t, g, 0, NCCLRing(LL, c.hosts, c.perHost))
		// The formula counts 2(hosts-1) hops between hosts, one lane has up to
		// two more in place of local ones.
		if ring < c.ring-1e-6 || ring > c.ring+2*2 {
			t.Errorf("%s ring: %v us, want %v", g.Name, ring, c.ring)
		}
		t.Logf("%-7s tree %8.1f us, ring %9.1f us: %.0f times", g.Name, got, ring, ring/got)
	}
}

// ringUs prices an AllReduce by the ring in the order of the ranks: all lanes of a ring are equal, so that one is
// priced, which leaves out the hops from rank 1 to rank 2 on the way of the sum and from rank 0 to rank 1 on that of
// the result; but no less than all lanes take together on the slowest link.
func ringUs(t testing.TB, g *topo.Graph, bytes int64, m Paper) float64 {
	t.Helper()
	n := g.Ranks
	lane := plan.Lane{Weight: 1}
	for i := range int32(n) { // the sum begins at rank 2 and is complete at rank 1
		r := (2 + i) % int32(n)
		prev, next := (r-1+int32(n))%int32(n), (r+1)%int32(n)
		gather := plan.Step{Op: plan.RecvReduceSend, Src: plan.In, From: prev, To: next}
		hand := plan.Step{Op: plan.RecvCopySend, Dst: plan.Out, From: prev, To: next}
		steps := []plan.Step{gather, hand}
		switch i {
		case int32(n) - 1:
			steps = []plan.Step{{Op: plan.RecvReduceCopySend, Src: plan.In, Dst: plan.Out, From: prev, To: next}}
		case int32(n) - 2:
			steps[1].Op, steps[1].To = plan.Recv, -1
		}
		if i == 0 {
			steps[0].Op, steps[0].From = plan.Send, -1
		}
		lane.Tracks = append(lane.Tracks, plan.Track{Rank: int(r), Steps: steps})
	}
	share := (bytes + int64(n) - 1) / int64(n)
	us := price(t, &plan.Plan{Name: "lane", Kind: plan.AllReduce, Size: n, Root: -1, Lanes: []plan.Lane{lane}}, g,
		share, m).Us
	for _, l := range g.Links {
		if d := (l.B - l.A + n) % n; d == 1 || d == n-1 {
			us = max(us, float64(2*(n-1))*float64(share)*usPerByte(l.GBytesPerSecond*cmp.Or(m.RateFactor, 1)))
		}
	}
	return us
}

// The price of one lane is that of the whole ring where a lane is one chunk; with more
// chunks, which hold each other up a little, it is at most a tenth less.
func TestRingLane(t *testing.T) {
	for _, n := range []int{3, 8, 24} {
		g := topo.UniformGraph(n)
		for i := range g.Links {
			g.Links[i].GBytesPerSecond, g.Links[i].LatencyUs = 10, 3
		}
		p, err := plan.FromRings(plan.AllReduce, [][]int{sequence(n)}, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, bytes := range []int64{0, 1 << 10, 1 << 18, 1 << 22} {
			bytes *= int64(n)
			m := Paper{Machine: Machine{Slots: 8, SlotBytes: 64 << 10, MinChunk: 8 << 10, StepUs: 0.5, ReduceGBs: 50}}
			want, got := price(t, p, g, bytes, m).Us, ringUs(t, g, bytes, m)
			least := 0.9
			if bytes <= int64(n)<<10 {
				least = 1 - 1e-9
			}
			if got < least*want || got > want*(1+1e-9) {
				t.Errorf("%d bytes over %d: %v us by one lane, %v by all", bytes, n, got, want)
			}
		}
	}
}
