package pack

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
)

// The packing reaches its bound on every connected graph of up to 16 ranks, with ports and without: the issue wants 99
// %.
func TestPackReachesTheBound(t *testing.T) {
	mixtures := 0
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 1, 16)
		r, err := Pack(g, BothWays, Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, g, r)
		if g.Ranks == 1 {
			return
		}
		if r.Ratio < 0.999999 || r.Ratio > 1+1e-9 {
			t.Fatalf("rate %v of the bound %v", r.Rate, r.Bound.Rate)
		}
		if err := r.Bound.Check(g); err != nil {
			t.Fatal(err)
		}
		if r.Bound.Partition == nil {
			mixtures++
			if len(g.Ports) == 0 {
				t.Fatal("no partition proves the bound of a graph without ports")
			}
		}
	})
	t.Logf("%d bounds needed several partitions at once", mixtures)
}

// The optima that were computed for treerun by other means (enumeration of
// partitions, flows, exact rationals), in GB/s: of all trees, of the minimum
// cut, and of the best one tree.
func TestKnownOptima(t *testing.T) {
	for _, c := range []struct {
		g              *topo.Graph
		tau, cut, tree float64
	}{
		{dgx1v(), 600.0 / 7, 150, 50},
		{dgx1p(), 320.0 / 7, 80, 20},
		{subset(dgx1v(), 0, 1, 2, 3, 4, 5), 62.5, 75, 50},
		{subset(dgx1v(), 0, 1, 2, 4), 50, 50, 25},
		{xgmi8(), 1200.0 / 7, 300, 50},
		{barbell3(), 3, 3, 1},
		{slowLeaf(), 1, 1, 1},
		{ring(5), 5.0 / 4, 2, 1},
		{ring(16), 16.0 / 15, 2, 1},
		{path(9), 1, 1, 1},
		{complete("k2", 2, 7), 7, 7, 7},
		{complete("k9", 9, 1), 9.0 / 2, 8, 1},
		{complete("k16", 16, 1), 8, 15, 1},
		// Hosts on a fabric that does not block: min(min B, sum B/(2(n-1))).
		// One card of half the rate costs trees an eighth, a ring a half.
		{cards(10, 10, 10, 10, 10, 10, 10, 10), 80.0 / 14, 10, 5},
		{cards(10, 10, 10, 10, 10, 10, 10, 5), 5, 5, 5},
		{cards(10, 20, 30, 40, 50, 60, 80, 100), 10, 10, 10},
	} {
		r, err := Pack(c.g, BothWays, Options{})
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, c.g, r)
		cut, err := FindBound(c.g, 0)
		if err != nil {
			t.Fatal(err)
		}
		one, err := Pack(c.g, BothWays, Options{MaxTrees: 1})
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, c.g, one)
		if !about(r.Rate, c.tau) || !about(r.Bound.Rate, c.tau) || !about(cut.Rate, c.cut) || !about(one.Rate, c.tree) ||
			len(one.Trees) != 1 {
			t.Errorf("%s: rate %v, bound %v, want %v; cut %v, want %v; %d trees of %v, want 1 of %v", c.g.Name,
				r.Rate, r.Bound.Rate, c.tau, cut.Rate, c.cut, len(one.Trees), one.Rate, c.tree)
		}
	}
}

// At most K trees: never below the rates that a reference search for treerun
// reached, nor the issue's. MXNet's eight trees reach 50.0 on dgx1v.
func TestFewTrees(t *testing.T) {
	for _, c := range []struct {
		g    *topo.Graph
		want map[int]float64
	}{
		{dgx1v(), map[int]float64{1: 50, 2: 75, 4: 75, 6: 81.25, 8: 85}},
		{dgx1p(), map[int]float64{1: 20, 2: 40, 4: 40, 8: 45}},
		{subset(dgx1v(), 0, 1, 2, 3, 4, 5), map[int]float64{2: 50, 3: 62.5}},
		{subset(dgx1v(), 0, 1, 2, 4), map[int]float64{2: 50}},
		{barbell3(), map[int]float64{2: 2, 3: 3}},
		{xgmi8(), map[int]float64{2: 100, 3: 150, 4: 150, 8: 150}},
		{complete("k16", 16, 1), map[int]float64{2: 2, 3: 3, 5: 5, 8: 8}},
		{cards(10, 20, 30, 40, 50, 60, 80, 100), map[int]float64{3: 10}},
		{cards(10, 10, 10, 10, 10, 10, 10, 10), map[int]float64{2: 5, 8: 5.5}},
	} {
		for k, want := range c.want {
			r, err := Pack(c.g, BothWays, Options{MaxTrees: k})
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, c.g, r)
			if len(r.Trees) > k || r.Rate < want*(1-1e-6) {
				t.Errorf("%s: %d trees of %v GB/s, want at most %d of %v", c.g.Name, len(r.Trees), r.Rate, k, want)
			}
		}
	}
}

// The best one and the best two trees of small graphs, against all of them. The search for two
// may end too early, one draw in 18,000 with the widest tree alone: that has at least half.
func TestFewTreesAgainstAll(t *testing.T) {
	count, best := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 2, 4)
		w, err := newNetwork(g, -1)
		if err != nil {
			t.Fatal(err)
		}
		var cols []*column
		everyTree(g, func(links []int) {
			tree := make(arcs, 0, len(links))
			for _, l := range links {
				tree = append(tree, int32(2*l))
			}
			cols = append(cols, w.column(tree))
		})
		one, two := 0.0, 0.0
		for i, a := range cols {
			one = max(one, a.width(w.Caps))
			for _, b := range cols[:i] {
				m := newMaster(w.Caps, work)
				m.add(a)
				m.add(b)
				m.solve(100)
				rates := m.solution()
				two = max(two, rates[0]+rates[1])
			}
		}
		for k, want := range []float64{one, max(one, two)} {
			r, err := Pack(g, BothWays, Options{MaxTrees: k + 1})
			if err != nil {
				t.Fatal(err)
			}
			checkResult(t, g, r)
			if len(r.Trees) > k+1 || r.Rate > want*(1+1e-6) || r.Rate < want*(1-1e-6)/float64(k+1) {
				t.Fatalf("%d trees of %v GB/s, the best %d have %v", len(r.Trees), r.Rate, k+1, want)
			}
			count++
			if about(r.Rate, want) {
				best++
			}
		}
	})
	t.Logf("%d of %d selections are the best there is", best, count)
	if best < count*95/100 {
		t.Errorf("%d of %d selections are the best there is, want 95 %%", best, count)
	}
}

// Limits are kept, or the note reports that they cannot be; more trees, more height and slower trees never cost rate
// beyond the share that the search may miss.
func TestLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 2, 9)
		o := Options{
			MaxTrees:  rapid.IntRange(0, 6).Draw(t, "K"),
			MaxHeight: float64(rapid.IntRange(0, 6).Draw(t, "H")),
			HeightUs:  rapid.Bool().Draw(t, "delay"),
			Greedy:    rapid.Bool().Draw(t, "greedy"),
			Seed:      rapid.Uint64().Draw(t, "seed"),
		}
		if rapid.Bool().Draw(t, "search") {
			o.HeightTolerance = 0.05
		}
		free, err := Pack(g, BothWays, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "least") {
			o.MinRate = free.Rate / float64(rapid.IntRange(1, 8).Draw(t, "r"))
		}
		r, err := Pack(g, BothWays, o)
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, g, r)
		if r.Rate > free.Bound.Rate*(1+1e-6) {
			t.Fatalf("rate %v above the bound %v", r.Rate, free.Bound.Rate)
		}
		if o.MaxTrees > 0 && len(r.Trees) > o.MaxTrees {
			t.Fatalf("%d trees, want at most %d", len(r.Trees), o.MaxTrees)
		}
		for i, tr := range r.Trees {
			if r.Rates[i] < o.MinRate*(1-1e-6) && !strings.Contains(r.Note, "no tree has a rate") {
				t.Fatalf("tree of %v GB/s, want %v; note %q", r.Rates[i], o.MinRate, r.Note)
			}
			height := float64(tr.Depth())
			if o.HeightUs {
				height = heightUs(g, tr)
			}
			if o.MaxHeight > 0 && height > o.MaxHeight+1e-6 && !strings.Contains(r.Note, "no spanning tree has a height") {
				t.Fatalf("tree of height %v, want %v; note %q", height, o.MaxHeight, r.Note)
			}
		}
	})
}

// The height is lowered where that costs nothing: all optima of small graphs
// were found within one link of the radius.
func TestHeightSearch(t *testing.T) {
	for _, c := range []struct {
		g       *topo.Graph
		least   float64 // rate, as a share of the bound
		highest int
	}{
		{dgx1v(), 1 - 1e-6, 3},
		{dgx1p(), 1 - 1e-6, 3},
		{complete("k8", 8, 1), 1 - 1e-6, 2},
		{ring(8), 0.99, 4},
	} {
		r, err := Pack(c.g, BothWays, Options{HeightTolerance: 1e-6})
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, c.g, r)
		for _, tr := range r.Trees {
			if d := tr.Depth(); d > c.highest || r.Ratio < c.least {
				t.Errorf("%s: depth %d, want %d; ratio %v", c.g.Name, d, c.highest, r.Ratio)
			}
		}
	}
}

// Where only slow links allow a height, trees of these are left, however fast the others are.
func TestLowHeightOfSlowLinks(t *testing.T) {
	g := &topo.Graph{Name: "slow", Ranks: 4, Links: []topo.Link{{A: 0, B: 1, GBytesPerSecond: 1},
		{A: 0, B: 2, GBytesPerSecond: 1e-9}, {A: 0, B: 3, GBytesPerSecond: 1e9}, {A: 1, B: 3, GBytesPerSecond: 1e-9},
		{A: 2, B: 3, GBytesPerSecond: 1}}}
	for _, root := range []int{BothWays, 0, 1, 2, 3} {
		for _, o := range []Options{{MaxHeight: 1}, {MaxHeight: 1, MinRate: 0.5}, {MaxHeight: 2, MaxTrees: 1}} {
			r, err := Pack(g, root, o)
			if err != nil || len(r.Trees) == 0 {
				t.Errorf("root %d, %+v: %v, %v", root, o, r, err)
			}
		}
	}
}

// The same graph and options give the same bytes.
func TestPackIsDeterministic(t *testing.T) {
	g := complete("k12", 12, 3)
	for i := range g.Links {
		g.Links[i].GBytesPerSecond += float64(i % 5)
	}
	var first []byte
	for range 3 {
		r, err := Pack(g, BothWays, Options{MaxTrees: 5, HeightTolerance: 0.1, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		}
		if string(data) != string(first) {
			t.Fatalf("got %s\nand %s", first, data)
		}
	}
}

func TestPackRefuses(t *testing.T) {
	apart := links(&topo.Graph{Ranks: 4}, 1, "01", "23")
	var disconnected *topo.DisconnectedError
	if _, err := Pack(apart, BothWays, Options{}); !errors.As(err, &disconnected) {
		t.Errorf("two components: %v", err)
	}
	if _, err := Pack(dgx1v(), 8, Options{}); err == nil || !strings.Contains(err.Error(), "root 8") {
		t.Errorf("root 8 of 8 ranks: %v", err)
	}
	if _, err := FindBound(path(MaxRanks+1), BothWays); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too many ranks: %v", err)
	}
}

// Some dozens of hosts with cards: the trees between hosts.
func TestPackManyHosts(t *testing.T) {
	rates := make([]float64, 64)
	for i := range rates {
		rates[i] = 10 + float64(i%3)
	}
	g := cards(rates...)
	r, err := Pack(g, BothWays, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkResult(t, g, r)
	if r.Ratio < 0.99 {
		t.Errorf("rate %v of %v", r.Rate, r.Bound.Rate)
	}
}

func BenchmarkPack(b *testing.B) {
	random16 := complete("random16", 16, 1)
	for i := range random16.Links {
		random16.Links[i].GBytesPerSecond = 1 + float64(i*7919%101)/100
	}
	hosts := make([]float64, 64)
	for i := range hosts {
		hosts[i] = 10
	}
	for _, c := range []struct {
		name string
		g    *topo.Graph
		o    Options
	}{
		{"dgx1v", dgx1v(), Options{}},
		{"dgx1v/K=2", dgx1v(), Options{MaxTrees: 2}},
		{"dgx1v/K=8", dgx1v(), Options{MaxTrees: 8}},
		{"dgx1v/greedy", dgx1v(), Options{Greedy: true}},
		{"dgx1v/height", dgx1v(), Options{HeightTolerance: 0.01}},
		{"k16", complete("k16", 16, 1), Options{}},
		{"random16", random16, Options{}},
		{"random16/K=8", random16, Options{MaxTrees: 8}},
		{"64cards", cards(hosts...), Options{}},
		{"64cards/K=4", cards(hosts...), Options{MaxTrees: 4}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				r, err := Pack(c.g, BothWays, c.o)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(100*r.Ratio, "%bound")
				b.ReportMetric(float64(len(r.Trees)), "trees")
			}
		})
	}
}
