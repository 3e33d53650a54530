package planner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// everyKind is all collectives.
func everyKind() (list []plan.Kind) {
	for kind := range plan.Kinds {
		list = append(list, kind)
	}
	return list
}

// testGraphs returns graphs by name: machines, ranks with equal links, two sockets, several hosts and random ones.
func testGraphs() map[string]*topo.Graph {
	all := allHosts()
	for _, n := range []int{1, 2, 3, 5, 8, directRanks + 1} {
		all[fmt.Sprintf("uniform %d", n)] = topo.UniformGraph(n)
	}
	for _, name := range []string{"dgx1v", "dgx1v-x2", "dgxa100", "ethernet4x4", "pcie8", "two-sockets", "p3dn",
		"abilene"} {
		all[name], _ = topo.Machine(name)
	}
	all["sockets of 9"] = sockets(9)
	all["even, 3 hosts of 3"] = evenHosts(3, 3)
	all["rough, 5 hosts of 2"] = testutil.Hosts(5, 2, func(a, b int) float64 { return float64(4 + (7*a+3*b)%5) },
		func(h int) float64 { return float64(4 + h%3) })
	for i := range 5 {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		size := 4 + i
		all[fmt.Sprintf("scattered %d", i)] = testutil.ScatteredHosts(size, 2+i%3, rng)
		all[fmt.Sprintf("random %d", i)] = randomGraph(2+i, rng)
	}
	return all
}

// sockets is ranks of two sockets: 10 GB/s inside, 3 between.
func sockets(ranks int) *topo.Graph {
	g := topo.UniformGraph(ranks)
	for i := range g.Links {
		l := &g.Links[i]
		l.GBytesPerSecond, l.LatencyUs = 10, 0.5
		if (l.A < ranks/2) != (l.B < ranks/2) {
			l.GBytesPerSecond, l.LatencyUs = 3, 1
		}
	}
	return g
}

// randomGraph is one host, whose ranks a random tree joins, and some links besides.
func randomGraph(ranks int, rng *rand.Rand) *topo.Graph {
	g := &topo.Graph{Ranks: ranks}
	for b := 1; b < ranks; b++ {
		tree := rng.IntN(b)
		for a := range b {
			if a == tree || rng.IntN(2) == 0 {
				g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: 1 + 9*rng.Float64(), LatencyUs: rng.Float64()})
			}
		}
	}
	return g
}

// everyAlgorithm returns all values of Options.Algorithm that name an algorithm.
func everyAlgorithm() []string {
	list := append([]string{""}, Algorithms()...)
	for _, inside := range insides {
		for _, between := range betweens {
			list = append(list, "hierarchical:"+inside.name+"/"+between)
		}
	}
	return list
}

// tried reports whether an algorithm is requested on a graph: searches over many ranks take long.
func tried(algorithm string, g *topo.Graph) bool {
	pair, hierarchical := strings.CutPrefix(algorithm, "hierarchical:")
	switch {
	case hierarchical:
		return several(g) && (g.Ranks <= 9 || strings.HasSuffix(pair, "/packing"))
	case g.Ranks > 9:
		return !slices.Contains([]string{"multi", "exact", "kl", "packing"}, algorithm)
	}
	return true
}

// TestCandidates proves every plan of every algorithm: those that are offered by default, and those that are offered
// only on request. By default go test requests a fifth of the algorithms on each graph.
func TestCandidates(t *testing.T) {
	graphs, proved := testGraphs(), make(map[string]bool)
	used := make(map[string]bool)
	for i, name := range slices.Sorted(maps.Keys(graphs)) {
		g := graphs[name]
		var free *Planner
		for j, algorithm := range everyAlgorithm() {
			if !tried(algorithm, g) || j > 0 && (i+j)%5 > 0 && !testutil.Thorough() {
				continue
			}
			p, err := New(g, Machine{Cores: 2}, Options{Algorithm: algorithm})
			if err == nil && free != nil {
				p.take(free.finder.found.byKey)
			}
			if err == nil {
				err = p.candidatesAreSound(proved, used)
			}
			if err != nil {
				t.Errorf("%s, algorithm %q: %v", name, algorithm, err)
			}
			free = cmp.Or(free, p)
		}
	}
	for _, algorithm := range everyAlgorithm() {
		_, pair, hierarchical := strings.Cut(algorithm, "hierarchical:")
		inside, between, _ := strings.Cut(pair, "/")
		leaders := between == "flat" || between == "doubling" // they are the centers of stars
		if none := algorithm == "" || algorithm == "hierarchical" || hierarchical && leaders &&
			inside != "star"; used[algorithm] == none {
			t.Errorf("%s has made plans: %v", algorithm, used[algorithm])
		}
	}
}

// take spares p the search for trees that another Planner of the graph has found, except those of the algorithm that
// the options of p request.
func (p *Planner) take(found map[string]*TreeSet) {
	for key, f := range found {
		if of, _, _ := strings.Cut(key, " "); !strings.Contains(p.Site.options.Algorithm, of) {
			p.finder.found.byKey[key] = f
		}
	}
}

// candidatesAreSound checks all candidates of p, whose names differ, and notes their plans and algorithms.
func (p *Planner) candidatesAreSound(proved, used map[string]bool) error {
	there, err := pairsOf(p)
	if err != nil {
		return err
	}
	for _, kind := range everyKind() {
		for _, root := range []int{0, p.Site.graph.Ranks - 1} {
			o, err := p.finder.candidates(kind, root)
			if err != nil {
				return err
			}
			for _, c := range o.list {
				if o.named(c.Name()) != c {
					return fmt.Errorf("%v from %d: two candidates are called %s", kind, root, c.Name())
				}
				if !c.Matches(p.Site.options.Algorithm) {
					continue // offered by itself as well
				}
				used[c.Algorithm] = true
				for _, bytes := range []int64{8, 16 << 20} {
					b, err := c.build(bytes)
					if err == nil {
						err = errors.Join(sound(p, b, there), prove(b, proved))
					}
					if err != nil {
						return fmt.Errorf("%v from %d by %s: %w", kind, root, c.Name(), err)
					}
				}
			}
		}
	}
	return nil
}

func several(g *topo.Graph) bool { return len(g.ByHost()) > 1 }

// prove verifies a plan, unless it was.
func prove(b *ChosenPlan, proved map[string]bool) error {
	digest := b.Plan.Digest()
	if proved[digest] {
		return nil
	}
	proved[digest] = true
	return plan.Verify(b.Plan, minSlots)
}

// sound reports links of a plan between hosts that are not there, and
// shares that do not add up.
func sound(p *Planner, b *ChosenPlan, there map[[2]int]bool) error {
	for _, k := range b.Plan.Links() {
		pair := [2]int{min(k.Src, k.Dst), max(k.Src, k.Dst)}
		if p.Site.graph.Host(k.Src) != p.Site.graph.Host(k.Dst) && !there[pair] || k.Lane > plan.MaxLanes {
			return fmt.Errorf("link %v is not there", k)
		}
	}
	if b.Shares == nil {
		return nil
	}
	sum := 0.0
	for _, s := range b.Shares {
		if !(s >= 0) {
			return fmt.Errorf("share %v", s)
		}
		sum += s
	}
	if math.Abs(sum-1) > 1e-9 || len(b.Shares) != len(b.Candidate.Channels) {
		return fmt.Errorf("%d shares of %d trees with the sum %v", len(b.Shares), len(b.Candidate.Channels),
			sum)
	}
	return nil
}

// Links of a DGX-1V do not join all ranks: a star goes over others then. The dies of an MI250 node, 16 of them, have
// packed trees from every root. Where all GPUs reach all, small messages go to all ranks, and larger ones to the ranks
// that add them: from about a megabyte on, as the hosts' calls count.
func TestTreesOfDevices(t *testing.T) {
	planners := make(map[string]*Planner)
	for _, c := range []struct {
		machine string
		kind    plan.Kind
		bytes   int64
		want    string
		rate    float64 // of the bound
	}{
		{"dgx1v", plan.Broadcast, 128 << 10, "star", 0},
		{"dgxh100", plan.AllReduce, 8, "flat", 0}, {"dgxh100", plan.AllReduce, 256 << 10, "flat", 0},
		{"dgxh100", plan.AllReduce, 2 << 20, "packing", 1}, {"dgxh100", plan.AllReduce, 1 << 30, "direct", 0},
		{"mi250", plan.Broadcast, 64 << 20, "packing", 0.9}, {"mi250", plan.Reduce, 256 << 20, "packing", 0.99},
	} {
		p := planners[c.machine]
		if p == nil {
			g, _ := topo.Machine(c.machine)
			p = plannerFor(t, g, Machine{Device: true}, Options{})
			planners[c.machine] = p
		}
		got := choose(t, p, c.kind, 3, c.bytes).Chosen
		bound, err := p.Site.Certify(c.kind, 3)
		if rate := p.Prices.FullRate(got); err != nil || got.Candidate.Algorithm != c.want || rate < c.rate*bound.Rate {
			t.Errorf("%v of %d bytes on %s is %s, %v of %v GB/s, %v", c.kind, c.bytes, c.machine,
				got.Name(), rate, bound.Rate, err)
		}
	}
}

// Work that would take too long is limited by counts, and the limit is reported.
func TestManyUnevenRanks(t *testing.T) {
	g := topo.UniformGraph(400)
	for i := range g.Links {
		g.Links[i].GBytesPerSecond = float64(5 + i%6)
	}
	p := plannerOf(t, g, Options{})
	if c := choose(t, p, plan.AllGather, -1, 1<<20); c.Chosen.Candidate.Algorithm != "double-binary" ||
		!math.IsNaN(c.PredictedUs) {
		t.Errorf("%s, %v us", c.Chosen.Name(), c.PredictedUs)
	}
	g.Links = slices.DeleteFunc(g.Links, func(l topo.Link) bool { return l.B != l.A+1 })
	p = plannerOf(t, g, Options{})
	if c := choose(t, p, plan.AllGather, -1, 1<<20); c.Chosen.Candidate.Algorithm != "double-binary" {
		t.Errorf("on a path: %s", c.Chosen.Name())
	}
	if list, err := p.Consider(plan.AllGather, -1, 1<<20); err != nil ||
		!slices.ContainsFunc(list, func(c Considered) bool {
			return c.Algorithm == "multi" &&
				strings.Contains(c.Why, "not tried")
		}) {
		t.Errorf("%+v, %v", list, err)
	}
}

// pairsOf returns the pairs of ranks of different hosts that plans of p join.
func pairsOf(p *Planner) (map[[2]int]bool, error) {
	pairs, err := p.allPairs()
	there := make(map[[2]int]bool)
	for _, pair := range pairs {
		there[pair] = true
	}
	return there, err
}

// A chain is tried for AllReduce on any number of ranks whose links differ, without a request: on many it may be the
// only candidate that fills them.
func TestChainOnManyRanks(t *testing.T) {
	g := topo.UniformGraph(40)
	for i := range g.Links {
		g.Links[i].GBytesPerSecond = float64(10 + i%7)
	}
	p, err := New(g, Machine{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.Choose(plan.AllReduce, -1, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	if c.Chosen.Candidate.Algorithm != "chain" {
		list, err := p.Consider(plan.AllReduce, -1, 16<<20)
		t.Errorf("%s is chosen of %v, %v, want chain", c.Chosen.Name(), list, err)
	}
}

// TestQuickest: the quickest channel depends on the size of the message, and of equal ones it is the first.
func TestQuickest(t *testing.T) {
	c := Candidate{Channels: []Channel{{LatencyUs: 4, Alone: 10}, {LatencyUs: 3, Alone: 5}, {LatencyUs: 3, Alone: 5},
		{LatencyUs: 4, Alone: 9}}}
	for bytes, want := range map[float64]int{8: 1, 9e3: 1, 11e3: 0, 1e6: 0} {
		if got := c.quickest(bytes); got != want {
			t.Errorf("%g bytes: channel %d, want %d", bytes, got, want)
		}
	}
}
