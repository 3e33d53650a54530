package planner

import (
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// TestHostsReachTheBound: the choice for 16 MiB is priced at 95 % or more of the rate that links and cards of the
// network allow; with two ranks on every host, and where every rank has a part, at 90 %.
func TestHostsReachTheBound(t *testing.T) {
	const bytes = 16 << 20
	for name, g := range allHosts() {
		p := plannerOf(t, g, Options{})
		for _, kind := range []plan.Kind{plan.AllReduce, plan.Broadcast, plan.Reduce, plan.AllGather, plan.ReduceScatter} {
			least := 0.95
			if p.Site.hosts.most > 1 || kind.HasParts() {
				least = 0.9
			}
			c := choose(t, p, kind, 0, bytes)
			bound := p.Site.LimitBetweenHosts(kind, 0)
			if rate := bytes / c.PredictedUs / 1e3; rate < least*bound || rate > 1.001*bound {
				t.Errorf("%s: %v takes %s at %.4g GB/s, %.1f %% of the bound, %.4g GB/s", name, kind,
					c.Chosen.Name(), rate, 100*rate/bound, bound)
			}
		}
	}
}

// TestSlotsBetweenHosts: the slots of a link hold the bytes on their way there and back, and no more than go over it in
// 4 ms, except where that is less than four slots of 4 KiB.
func TestSlotsBetweenHosts(t *testing.T) {
	for _, gbs := range []float64{1e-6, 0.0125, 0.025, 0.0625, 0.125, 1.25, 12.5} {
		for _, us := range []float64{10, 50, 1000, 20000} {
			g := evenHosts(8, 1)
			for i := range g.Links {
				g.Links[i].GBytesPerSecond, g.Links[i].LatencyUs = gbs, us
			}
			for i := range g.Ports {
				g.Ports[i].GBytesPerSecond = gbs
			}
			slots, bytes := plannerOf(t, g, Options{}).Site.Slots()
			if bytes%4096 != 0 || slots < 4 {
				t.Errorf("%g GB/s, %g us: %d slots of %d bytes", gbs, us, slots, bytes)
			}
			hold, window := min(gbs*2e3*us, 48<<20/28), max(gbs*4e6, 16<<10)
			if have := float64(slots * bytes); have < hold/2 || have > max(window, 2*hold) {
				t.Errorf("%g GB/s, %g us: slots hold %.0f bytes, want %.0f to %.0f", gbs, us, have, hold, max(window, 2*hold))
			}
		}
	}
}

// TestLinksOfManyHosts: on many hosts a rank has links to a number of ranks of other
// hosts that grows with the logarithm of the number of hosts.
func TestLinksOfManyHosts(t *testing.T) {
	before := 0
	for hosts := 32; hosts <= 64; hosts *= 2 {
		p := plannerOf(t, evenHosts(hosts, 8), Options{})
		pairs, err := p.allPairs()
		if err != nil {
			t.Fatal(err)
		}
		near := make([]map[int]bool, p.Site.graph.Ranks)
		for r := range near {
			near[r] = make(map[int]bool)
		}
		for _, pair := range pairs {
			near[pair[0]][pair[1]], near[pair[1]][pair[0]] = true, true
		}
		most, all := 0, 0
		for _, peers := range near {
			most, all = max(most, len(peers)), all+len(peers)
		}
		if limit := 3*bits.Len(uint(hosts)) + 6; most > limit || before > 0 && most > before+4 {
			t.Errorf("%d hosts: a rank has links to %d on other hosts, want at most %d, and 4 more than %d", hosts, most, limit,
				before)
		}
		if each := float64(all) / float64(p.Site.graph.Ranks); each > 12 {
			t.Errorf("%d hosts: a rank has links to %.1f on other hosts on average, want 12 at most", hosts, each)
		}
		if p.Site.Runs(plan.AllToAll) == nil || p.Site.Runs(plan.AllGather) == nil ||
			p.Site.Runs(plan.Reduce) != nil || p.Site.HasPairs() {
			t.Errorf("%d hosts: what needs links between all ranks is offered", hosts)
		}
		before = most
	}
}

// A message goes in one chunk where chunks cost more than they save, and in several where
// the network is slow.
func TestChunksByPrice(t *testing.T) {
	const bytes = 64 << 10
	for rate, want := range map[float64]int64{6: 1, 500 * mbit: 3} {
		g := testutil.Hosts(4, 1, testutil.Wires(rate), testutil.Always(0))
		p := plannerFor(t, g, Machine{Cores: 2, CoreHosts: []int{0, 0, 0, 0}}, Options{})
		o, err := p.finder.candidates(plan.Broadcast, 0)
		if err != nil {
			t.Fatal(err)
		}
		own, err := p.Prices.cheapest([]*Candidate{o.named("star")}, bytes)
		if err != nil {
			t.Fatal(err)
		}
		chunk := min(int64(own.Chunks.Of(bytes, 1, 1, p.Site.slotBytes)), bytes)
		if got := (bytes + chunk - 1) / chunk; got != want {
			t.Errorf("%v GB/s: %d chunks, want %d", rate, got, want)
		}
	}
}

// A choice made for a size stands for those up to four times it: where two chunk sizes have the same price at that
// size, the price of the larger messages counts. So messages between the sizes that are priced have the chunks that
// their own price would choose.
func TestChunksBetweenPricedSizes(t *testing.T) {
	const bytes = 1 << 20 // priced are 512 KiB and 2 MiB
	p := plannerOf(t, evenHosts(4, 1), Options{})
	c := choose(t, p, plan.AllReduce, -1, bytes).Chosen
	own, err := p.Prices.cheapest([]*Candidate{c.Candidate}, bytes)
	if err != nil {
		t.Fatal(err)
	}
	share := widestShare(c.Plan, bytes)
	got, asked := c.Chunks.Of(share, 1, 1, p.Site.slotBytes), own.Chunks.Of(share, 1, 1, p.Site.slotBytes)
	if got != asked {
		t.Errorf("%s of %d bytes goes in chunks of %d, by its own price of %d", c.Name(), bytes, got, asked)
	}
}

// The bound of a served plan is that of package pack.
func TestCertify(t *testing.T) {
	graphs := testGraphs()
	for _, name := range []string{"dgx1v", "pcie8", "mesh, 2 each", "uneven cards, 1 each", "random 4", "scattered 1",
		"even, 3 hosts of 3"} {
		g := graphs[name]
		p := plannerOf(t, g, Options{})
		for kind, root := range map[plan.Kind]int{plan.AllReduce: pack.BothWays, plan.AllGather: pack.EveryRoot,
			plan.Broadcast: 1} {
			c := choose(t, p, kind, 1, 64<<20)
			got, err := p.Site.Certify(kind, 1)
			if err != nil {
				t.Fatalf("%s: %v: %v", name, kind, err)
			}
			want, err := pack.FindBound(g, root)
			if err != nil {
				t.Fatal(err)
			}
			if got.Rate > want.Rate*(1+1e-6) || got.Rate < want.Rate*(1-1e-6) {
				t.Errorf("%s: the bound of %v is %v, by package pack %v", name, kind, got.Rate, want.Rate)
			}
			if rate := p.Prices.FullRate(c.Chosen); rate > got.Rate*(1+1e-6) {
				t.Errorf("%s: %v by %s reaches %v GB/s of the %v that is possible", name, kind,
					c.Chosen.Name(), rate, got.Rate)
			}
		}
	}
}

// TestCrowded: ranks that have cores of their own, or few to share one, choose for themselves.
func TestCrowded(t *testing.T) {
	for name, c := range map[string]struct {
		g    *topo.Graph
		m    Machine
		want bool
	}{
		"devices":              {topo.UniformGraph(64), Machine{Device: true, StagingBytes: 1 << 20}, false},
		"8 ranks on 2 cores":   {topo.UniformGraph(8), Machine{Cores: 2}, false},
		"9 ranks on 2 cores":   {topo.UniformGraph(9), Machine{Cores: 2}, true},
		"hosts of their own":   {evenHosts(16, 1), Machine{Cores: 2}, false},
		"hosts of one machine": {evenHosts(16, 1), Machine{Cores: 2, CoreHosts: make([]int, 16)}, true},
		"oversubscribed hosts": {evenHosts(2, 9), Machine{Cores: 2}, true},
	} {
		if got := plannerFor(t, c.g, c.m, Options{}).Site.Oversubscribed(); got != c.want {
			t.Errorf("%s: oversubscribed %t, want %t", name, got, c.want)
		}
	}
}

// A host whose ranks are not all linked has no star, so that leaders cannot collect from their hosts: with many ranks,
// too, that is a reason, and the choice is among the other candidates.
func TestLeadersWithoutLinks(t *testing.T) {
	g := evenHosts(PairRanks/4+1, 4)
	g.Links = slices.DeleteFunc(g.Links, func(l topo.Link) bool { return l.B-l.A == 2 && g.Hosts[l.A] == g.Hosts[l.B] })
	p := plannerOf(t, g, Options{})
	c := choose(t, p, plan.AllReduce, -1, 1<<10).Chosen.Candidate
	if !strings.HasPrefix(c.Algorithm, "hierarchical:") {
		t.Errorf("%s was chosen", c.Algorithm)
	}
}

// TestDeviceSlots: on every machine a chunk between devices may have 1 MiB, and the slots of no rank take more than
// staging memory has, nor, except for kinds that join all pairs, too much of pinned memory between hosts: 256 MiB, as
// four DGX A100 need for the trees of all roots.
func TestDeviceSlots(t *testing.T) {
	names := []string{"dgxh100", "dgxh100-x2"}
	if testutil.Thorough() {
		names = append(names, "dgx1v", "dgx1v-x2", "dgxa100", "dgxa100-x4", "dgxh100-x4", "pcie8")
	}
	for _, name := range names {
		g, _ := topo.Machine(name)
		p := plannerFor(t, g, Machine{Device: true}, Options{})
		slots, bytes := p.Site.Slots()
		within, between := make([]int, g.Ranks), make([]int, g.Ranks)
		seen := map[plan.Link]bool{}
		for _, kind := range []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.AllGather, plan.ReduceScatter} {
			list, err := p.AllPlans(kind)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list {
				for _, l := range s.Plan.Links() {
					switch {
					case seen[l]:
					case g.Host(l.Src) == g.Host(l.Dst):
						within[l.Src]++
					default:
						between[l.Src]++
						between[l.Dst]++
					}
					seen[l] = true
				}
			}
		}
		fits := min(bytes, DefaultStagingBytes/slots/max(slices.Max(within), 1)) // as collective/internal/device makes it
		pinned := slices.Max(between) * slots * fits
		t.Logf("%s: %d slots of %d KiB, %d MiB pinned", name, slots, fits>>10, pinned>>20)
		if fits < 1<<20 || pinned > 256<<20 {
			t.Errorf("%s: %d slots of %d bytes, and %d of pinned memory", name, slots, fits, pinned)
		}
	}
}

// TestQuickestBetweenHosts: of the links between the ranks of two hosts the quickest counts, of equal ones that of the
// lowest ranks.
func TestQuickestBetweenHosts(t *testing.T) {
	g := topo.UniformGraph(5)
	g.Hosts = []int{0, 0, 1, 1, 2}
	for i := range g.Links {
		l := &g.Links[i]
		switch [2]int{l.A, l.B} {
		case [2]int{1, 2}, [2]int{1, 3}:
			l.GBytesPerSecond = 50
		default:
			l.GBytesPerSecond = 10
		}
	}
	h := newHosts(g, nil)
	for pair, want := range map[[2]int32][2]int{{0, 1}: {1, 2}, {0, 2}: {0, 4}, {1, 2}: {2, 4}} {
		if l, ok := h.quickest[pair]; !ok || [2]int{l.A, l.B} != want {
			t.Errorf("between hosts %v: %+v, want that of ranks %v", pair, l, want)
		}
	}
}
