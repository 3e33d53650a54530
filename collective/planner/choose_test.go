package planner

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// plannerOf returns a Planner for ranks on two cores.
func plannerOf(t testing.TB, g *topo.Graph, o Options) *Planner {
	t.Helper()
	return plannerFor(t, g, Machine{Cores: 2}, o)
}

func plannerFor(t testing.TB, g *topo.Graph, m Machine, o Options) *Planner {
	t.Helper()
	p, err := New(g, m, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func choose(t testing.TB, p *Planner, kind plan.Kind, root int, bytes int64) *Choice {
	t.Helper()
	c, err := p.Choose(kind, root, bytes)
	if err != nil {
		t.Fatalf("%v of %d bytes: %v", kind, bytes, err)
	}
	return c
}

// TestStopBy: a choice ends with the error of a stop, at any run, and leaves nothing behind: the next choice is that of
// a new Planner.
func TestStopBy(t *testing.T) {
	g, m := testGraphs()["mesh, 1 each"], Machine{Cores: 2}
	want := choose(t, plannerFor(t, g, m, Options{}), plan.AllReduce, -1, 1<<20)
	p := plannerFor(t, g, m, Options{})
	stops := 0
	for ; ; stops++ {
		left := stops
		p.StopBy(func() bool {
			left--
			return left < 0
		})
		got, err := p.Choose(plan.AllReduce, -1, 1<<20)
		if err == nil {
			same := got.Chosen.Plan.Digest() == want.Chosen.Plan.Digest()
			if !same || got.PredictedUs != want.PredictedUs {
				t.Errorf("after %d stops: %s, %v us, want %s, %v us", stops, got.Chosen.Name(),
					got.PredictedUs, want.Chosen.Name(), want.PredictedUs)
			}
			break
		}
		if !errors.Is(err, sim.ErrStopped) {
			t.Fatal(err)
		}
	}
	if stops == 0 {
		t.Error("a choice is made without a run")
	}
}

// TestChooseTakesTheBest compares choices at and between the sizes that are always priced
// with the prices of all candidates.
func TestChooseTakesTheBest(t *testing.T) {
	graphs, factor := testGraphs(), int64(testutil.Count(60, 5))
	for name, m := range map[string]Machine{
		"uniform 5": {Cores: 64}, "random 1": {Cores: 64}, "random 3": {}, "random 4": {Cores: 2}, "scattered 0": {Cores: 2},
		"mesh, 1 each": {Cores: 2}, "uneven cards, 1 each": {Cores: 64}, "p3dn": {Device: true},
	} {
		p := plannerFor(t, graphs[name], m, Options{})
		for _, kind := range everyKind() {
			if o, err := p.finder.candidates(kind, 0); err != nil || kind == plan.Barrier {
				continue
			} else if _, rule := p.tables[kind].byRule(o, minPriced); rule != "" {
				continue // see TestRules
			}
			for bytes := int64(minPriced); bytes <= maxPriced; bytes = bytes * factor / 2 &^ 7 {
				c := choose(t, p, kind, 0, bytes)
				all, err := p.Consider(kind, 0, bytes)
				if err != nil {
					t.Fatal(err)
				}
				near := 1 + p.Prices.nearly()
				if best := all[0]; c.PredictedUs > best.PredictedUs*near*1.105 || !(c.PredictedUs > 0) {
					t.Errorf("%s: %v of %d bytes by %s takes %.5g us, by %s %.5g: %.3f",
						name, kind, bytes, c.Chosen.Name(), c.PredictedUs, best.Algorithm,
						best.PredictedUs, c.PredictedUs/best.PredictedUs)
				}
			}
		}
	}
}

// TestNoneAskedForIsCheaper: no algorithm that is requested by name has a price below that of the choice without a
// request, unless it was left out for the work that it takes, which the reason names.
func TestNoneAskedForIsCheaper(t *testing.T) {
	graphs := testGraphs()
	for n := 3; n <= 8; n++ {
		graphs[fmt.Sprint("sockets of ", n)] = sockets(n)
	}
	for _, name := range []string{"mi300x", "dgx2"} {
		graphs[name], _ = topo.Machine(name)
	}
	graphs["sockets of 12"] = sockets(12)
	if len(graphs) < 40 {
		t.Fatalf("%d graphs", len(graphs))
	}
	for i, name := range slices.Sorted(maps.Keys(graphs)) {
		if i%16 != 0 && !testutil.Thorough() {
			continue
		}
		g, m := graphs[name], []Machine{{Cores: 2}, {Device: true}, {Cores: 64}}[i%3]
		free := plannerFor(t, g, m, Options{})
		for _, algorithm := range Algorithms() {
			if !tried(algorithm, g) {
				continue
			}
			p := plannerFor(t, g, m, Options{Algorithm: algorithm})
			p.take(free.finder.found.byKey)
			for _, kind := range everyKind() {
				if p.Supports(kind, 0) == nil && !free.leftOut(algorithm, kind) {
					p.isNoCheaper(t, name, free, kind)
				}
			}
		}
	}
}

// leftOut reports whether an algorithm was left out for the work that it takes, or a rule
// decides.
func (p *Planner) leftOut(algorithm string, kind plan.Kind) bool {
	o, err := p.finder.candidates(kind, 0)
	if err != nil {
		return false
	}
	if _, rule := p.tables[kind].byRule(o, minPriced); rule != "" && (kind == plan.Barrier || pairwise(kind)) {
		return true
	}
	return slices.ContainsFunc(o.without, func(c Considered) bool {
		return c.Algorithm == algorithm && strings.Contains(c.Why, "not tried")
	})
}

// isNoCheaper compares the prices of the algorithm that the options of p request with those of the choice.
func (p *Planner) isNoCheaper(t *testing.T, name string, free *Planner, kind plan.Kind) {
	for _, bytes := range []int64{8, 512, 32 << 10, 2 << 20, 128 << 20} {
		if kind == plan.Barrier {
			bytes = 0
		}
		got, want := choose(t, p, kind, 0, bytes), choose(t, free, kind, 0, bytes)
		if want.PredictedUs > got.PredictedUs*(1+free.Prices.nearly())*1.001 {
			t.Errorf("%s: %v of %d bytes by %s takes %.5g us, the choice %s %.5g: %.3f", name, kind, bytes,
				got.Chosen.Name(), got.PredictedUs, want.Chosen.Name(), want.PredictedUs,
				want.PredictedUs/got.PredictedUs)
		}
	}
}

// TestChunksOfSharedCores: ranks that share cores cut messages into larger chunks, whether a rule or a price chooses.
func TestChunksOfSharedCores(t *testing.T) {
	for cores, want := range map[int]int{2: 16 << 10, 4: 8 << 10} {
		p := plannerFor(t, topo.UniformGraph(4), Machine{Cores: cores}, Options{})
		for _, kind := range []plan.Kind{plan.Broadcast, plan.Reduce} {
			if got := p.Site.ChunkBytes(choose(t, p, kind, 0, 32<<10).Chosen, 32<<10); got != want {
				t.Errorf("%v on %d cores: chunks of %d bytes, want %d", kind, cores, got, want)
			}
		}
	}
}

// Where ranks share cores rank 0 leaves a Barrier first, and elsewhere no rank stands between two others; a small
// Reduce goes straight to its root. The same holds for hosts that are one machine; with a machine for each host the
// time of a Barrier counts.
func TestRules(t *testing.T) {
	one, apart := []int{0, 0, 0, 0}, []int{0, 1, 2, 3}
	for _, c := range []struct {
		g    *topo.Graph
		m    Machine
		star bool
	}{
		{topo.UniformGraph(2), Machine{Cores: 2}, false}, {topo.UniformGraph(4), Machine{Cores: 4}, false},
		{topo.UniformGraph(3), Machine{Cores: 2}, true}, {topo.UniformGraph(8), Machine{Cores: 2}, true},
		{topo.UniformGraph(16), Machine{Cores: 4}, true}, {topo.UniformGraph(4), Machine{}, false},
		{evenHosts(4, 1), Machine{Cores: 2, CoreHosts: one}, true},
		{evenHosts(4, 1), Machine{Cores: 4, CoreHosts: one}, false},
		{evenHosts(4, 1), Machine{Cores: 2, CoreHosts: []int{0, 0, 0, 1}}, false},
		{evenHosts(4, 1), Machine{Cores: 2, CoreHosts: apart}, false},
	} {
		for i := range c.g.Links {
			c.g.Links[i].LatencyUs = max(c.g.Links[i].LatencyUs, 1) // that trees take several times
		}
		p := plannerFor(t, c.g, c.m, Options{})
		barrier := choose(t, p, plan.Barrier, -1, 0)
		star := barrier.Chosen.Candidate.Algorithm == "star"
		if star != c.star || strings.HasPrefix(barrier.By, "rule") != star {
			t.Errorf("%d ranks, %+v: Barrier is %s by %s", c.g.Ranks, c.m, barrier.Chosen.Name(),
				barrier.By)
		}
		reduce := choose(t, p, plan.Reduce, 1, 8).Chosen
		if len(c.m.CoreHosts) == 0 && c.g.Ranks > 2 && reduce.Candidate.Algorithm != "star" {
			t.Errorf("%d ranks, %+v: Reduce of 8 bytes is %s", c.g.Ranks, c.m, reduce.Name())
		}
	}
}

// Large messages have one plan for all sizes, so that many may be under way at once; its shares are those of the trees'
// rates.
func TestLargeMessagesHaveOnePlan(t *testing.T) {
	graphs := testGraphs()
	for _, name := range []string{"dgx1v", "two-sockets", "uneven cards, 2 each", "mesh, 1 each", "uniform 5"} {
		p := plannerOf(t, graphs[name], Options{})
		for _, kind := range []plan.Kind{plan.AllReduce, plan.Broadcast, plan.Reduce} {
			first := choose(t, p, kind, 0, 512<<20).Chosen
			for bytes := int64(600 << 20); bytes < 1<<40; bytes *= 3 {
				if c := choose(t, p, kind, 0, bytes).Chosen; c != first {
					t.Errorf("%s: %v of %d bytes has a plan of its own, %s", name, kind, bytes, c.Name())
				}
			}
			of := first.Candidate
			for i := range of.Channels {
				if want := of.Channels[i].Rate / of.Rate(); of.Variant != variantOne &&
					math.Abs(first.Shares[i]-want) > 1e-9 {
					t.Errorf("%s: %v: tree %d has the share %v, by rate %v", name, kind, i, first.Shares[i], want)
				}
			}
		}
	}
}

// Two Planners with the same request have the same plans, byte for byte, also where one
// chooses for all sizes at once.
func TestSameRequestSamePlan(t *testing.T) {
	graphs := testGraphs()
	names := []string{"mesh, 2 each", "random 2", "random 4", "scattered 3", "uniform 3"}
	for _, name := range names[:testutil.Count(3, 5)] {
		g := graphs[name]
		a, b := plannerOf(t, g, Options{}), plannerOf(t, g, Options{})
		for _, kind := range everyKind() {
			if _, err := a.Table(kind); err != nil {
				t.Fatal(err)
			}
			for _, bytes := range []int64{8, 100, 10_000, 300_000, 16 << 20} {
				x, y := choose(t, a, kind, g.Ranks-1, bytes).Chosen, choose(t, b, kind, g.Ranks-1,
					bytes).Chosen
				if x.Name() != y.Name() || x.Plan.Digest() != y.Plan.Digest() || x.Chunks != y.Chunks {
					t.Errorf("%s: %v of %d bytes is %s %s, or %s %s",
						name, kind, bytes, x.Name(), x.Plan.Digest(), y.Name(), y.Plan.Digest())
				}
			}
		}
	}
}

// Options.Algorithm holds for the collectives that it offers. Others are planned as usual.
func TestAlgorithmHolds(t *testing.T) {
	graphs := testGraphs()
	for _, name := range []string{"uniform 5", "random 3", "uneven cards, 2 each"} {
		g := graphs[name]
		usual := plannerOf(t, g, Options{})
		for _, algorithm := range everyAlgorithm()[1:] {
			if strings.HasPrefix(algorithm, "hierarchical:") && !several(g) {
				continue
			}
			p := plannerOf(t, g, Options{Algorithm: algorithm})
			for _, kind := range []plan.Kind{plan.AllReduce, plan.AllGather, plan.AllToAll} {
				c, u := choose(t, p, kind, 0, 64<<10).Chosen, choose(t, usual, kind, 0, 64<<10).Chosen
				if p.Supports(kind, 0) == nil {
					if !c.Candidate.Matches(algorithm) {
						t.Errorf("%s: %s offers %v, which runs by %s", name, algorithm, kind, c.Name())
					}
				} else if u.Name() != c.Name() || u.Plan.Digest() != c.Plan.Digest() {
					t.Errorf("%s: %s has no plan for %v, which runs by %s and not by %s as usual",
						name, algorithm, kind, c.Name(), u.Name())
				}
			}
		}
	}
}

// A given plan serves the calls of its kind and root, of any size, and no others.
func TestGiven(t *testing.T) {
	g := topo.UniformGraph(4)
	made, err := plan.Direct(plan.Broadcast, 4, 2, plan.Single)
	if err != nil {
		t.Fatal(err)
	}
	given, err := NewGiven(&plan.File{Algorithm: "by hand", Digest: made.Digest(), ChunkBytes: 4096}, made)
	if err != nil {
		t.Fatal(err)
	}
	p := plannerOf(t, g, Options{Given: given})
	for _, kind := range everyKind() {
		for root := range 4 {
			for _, bytes := range []int64{8, 64 << 20} {
				c := choose(t, p, kind, root, bytes).Chosen
				if serves := c.Plan == made; serves != (kind == plan.Broadcast && root == 2) {
					t.Errorf("%v from root %d is by the given plan: %v", kind, root, serves)
				} else if serves && (c.Candidate.Algorithm != "by hand" || p.Site.ChunkBytes(c,
					bytes) > 4096) {
					t.Errorf("the given plan is %s, in chunks of %d bytes", c.Name(),
						p.Site.ChunkBytes(c, bytes))
				}
			}
		}
	}
	if _, err := New(topo.UniformGraph(5), Machine{}, Options{Given: given}); err == nil {
		t.Error("a plan for 4 ranks serves 5")
	}
	spoilt := *made
	spoilt.Lanes = slices.Clone(made.Lanes)
	spoilt.Lanes[0].Tracks = spoilt.Lanes[0].Tracks[1:]
	if _, err := NewGiven(&plan.File{Algorithm: "by hand", Digest: spoilt.Digest()}, &spoilt); err == nil {
		t.Error("a plan that never ends is taken")
	}
}

// A plan file with other trees or shares than its steps have is refused.
func TestGivenTrees(t *testing.T) {
	c := choose(t, plannerOf(t, topo.UniformGraph(4), Options{Algorithm: "multi"}), plan.AllReduce, -1, 64<<20)
	for want, spoil := range map[string]func(trees []plan.FileTree){
		"":                    func([]plan.FileTree) {},
		"the steps are not":   func(trees []plan.FileTree) { trees[0].Share *= 2 },
		"no tree has a share": func(trees []plan.FileTree) { clear(trees) },
	} {
		f := c.File()
		f.ChunkBytes = 4096
		spoil(f.Trees)
		_, err := NewGiven(f, c.Chosen.Plan)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Where the requested algorithm has no plan for a kind the candidates are those without a request: the request lifts no
// limit on the work for them.
func TestRequestWithoutPlan(t *testing.T) {
	g := topo.UniformGraph(jointRanks + 2)
	for i := range g.Links {
		g.Links[i].GBytesPerSecond = float64(5 + i%6)
	}
	p, usual := plannerOf(t, g, Options{Algorithm: "multi:one"}), plannerOf(t, g, Options{})
	if err := p.Supports(plan.AllGather, 0); err == nil {
		t.Error("one tree has a plan for parts from every rank")
	}
	got, want := p.CandidateNames(plan.AllGather), usual.CandidateNames(plan.AllGather)
	if !slices.Equal(got, want) {
		t.Errorf("candidates %v, want %v", got, want)
	}
}

// A search for trees only computes no rates, which a rank that decides for all would compute for every root.
func TestTreesOnly(t *testing.T) {
	for _, treesOnly := range []bool{false, true} {
		p := plannerOf(t, sockets(4), Options{Stable: true, Algorithm: "chain"})
		set, err := p.finder.search(plan.AllReduce, 0, treesOnly)
		if err != nil {
			t.Fatal(err)
		}
		if c := set.list[0].Channels[0]; (c.Rate == 0) != treesOnly {
			t.Errorf("trees only: %v, and a tree has the rate %v", treesOnly, c.Rate)
		}
	}
}
