package tree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// order returns the ranks of a ring.
func order(ring topo.Tree) []int {
	list, err := PathOf(ring)
	if err != nil {
		panic(err)
	}
	return list
}

// bruteWalk tries all orders that go on from order; it returns the best slowest
// rate and, with it, the largest sum.
func bruteWalk(m topo.Matrix, order []int, closed bool, slowest, sum float64, best *[2]float64) {
	if len(order) == m.N {
		if closed {
			w := m.At(order[m.N-1], order[0])
			slowest, sum = min(slowest, w), sum+w
		}
		if slowest > best[0] || slowest == best[0] && sum > best[1] {
			*best = [2]float64{slowest, sum}
		}
		return
	}
	for v := range m.N {
		if w := m.At(order[len(order)-1], v); w > 0 && !slices.Contains(order, v) {
			bruteWalk(m, append(order, v), closed, min(slowest, w), sum+w, best)
		}
	}
}

// measure returns the slowest rate and the sum along an order, after checking
// that it visits every rank once over links of g.
func measure(t *testing.T, g *topo.Graph, order []int, closed bool) [2]float64 {
	t.Helper()
	m := g.Rates()
	sorted := slices.Sorted(slices.Values(order))
	if !slices.Equal(sorted, numbers.Below(g.Ranks)) {
		t.Fatalf("order %v of %d ranks", order, g.Ranks)
	}
	out := [2]float64{1e18, 0}
	for i := range order {
		if i == 0 && !closed {
			continue
		}
		w := m.At(order[i], order[(i+g.Ranks-1)%g.Ranks])
		if w == 0 {
			t.Fatalf("order %v has no link behind %d", order, order[i])
		}
		out[0], out[1] = min(out[0], w), out[1]+w
	}
	return out
}

func TestRingAndChainAgainstBruteForce(t *testing.T) {
	var rings, chains tally
	for seed := range uint64(400) {
		g := sample(3+int(seed%6), seed)
		best := [2]float64{}
		bruteWalk(g.Rates(), []int{0}, true, 1e18, 0, &best)
		r, rates, err := Rings(g, 1)
		got := [2]float64{}
		if err == nil {
			if got = measure(t, g, order(r[0]), true); got[0] != rates[0] {
				t.Fatalf("ring %v, its slowest link %v", r, got[0])
			}
		} else if !strings.Contains(err.Error(), "found no ring") {
			t.Fatal(err)
		}
		rings.count(t, got, best)

		root := int(seed) % g.Ranks
		best = [2]float64{}
		bruteWalk(g.Rates(), []int{root}, false, 1e18, 0, &best)
		tr := Chain(g, root)
		if err := tr.Validate(g.Ranks); err != nil || tr.Root != root || testutil.MissingLinks(g, tr) >= 0 {
			t.Fatalf("%v\n%v", err, tr)
		}
		got = [2]float64{}
		if tr.Note == "" {
			got = [2]float64{slowest(g.Rates(), tr), weight(g, tr)}
			if tr.Depth() != g.Ranks-1 {
				t.Fatalf("no path and no note: %v", tr)
			}
		}
		chains.count(t, got, best)
	}
	t.Logf("rings %+v, chains %+v", rings, chains)
	for what, c := range map[string]tally{"rings": rings, "chains": chains} {
		if c.exist < 150 || c.without < 30 {
			t.Errorf("%s: %+v: the sample shows too little", what, c)
		}
		if c.missed > c.exist/100 || c.slower > c.exist/50 || c.lighter > c.exist/50 {
			t.Errorf("%s: %+v: the search misses more than one of fifty", what, c)
		}
	}
}

// tally counts the searches that reach the best rate and sum there are.
type tally struct {
	exist, without          int // graphs with and without an order
	missed, slower, lighter int // of exist: not found, with a slower link, with a smaller sum only
}

func (c *tally) count(t *testing.T, got, best [2]float64) {
	t.Helper()
	if got[0] > best[0] || got[0] == best[0] && got[1] > best[1]+1e-9 {
		t.Fatalf("%v is better than the best of all, %v", got, best)
	}
	switch {
	case best[0] == 0:
		c.without++
		return
	case got[0] == 0:
		c.missed++
	case got[0] < best[0]:
		c.slower++
	case got[1] < best[1]-1e-9:
		c.lighter++
	}
	c.exist++
}

// The DGX-1V has a ring of double links and one of single ones, each both ways round: together NCCL's six rings of a
// single link, 85.7 GB/s of AllReduce.
func TestRingsDGX1V(t *testing.T) {
	rings, rates, err := Rings(dgx1v(), 16)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, r := range rings {
		got = append(got, fmt.Sprint(order(r), rates[i]))
	}
	if want := []string{"[0 3 2 1 5 6 7 4] 50", "[0 4 7 6 5 1 2 3] 50", "[0 1 3 7 5 4 6 2] 25",
		"[0 2 6 4 5 7 3 1] 25"}; !slices.Equal(got, want) {
		t.Errorf("rings %v, want %v", got, want)
	}
}

// Above the exact sizes rings are found on graphs that have them; on hosts they
// cross between hosts as seldom as they can.
func TestRingLarge(t *testing.T) {
	hypercube := &topo.Graph{Ranks: 64}
	for v := range 64 {
		for bit := 1; bit < 64; bit *= 2 {
			if v&bit == 0 {
				hypercube.Links = append(hypercube.Links, topo.Link{A: v, B: v | bit, GBytesPerSecond: 2})
			}
		}
	}
	for _, c := range []struct {
		name string
		g    *topo.Graph
		want [2]float64
	}{
		{"ring of 100", ring(100), [2]float64{1, 100}},
		{"hypercube", hypercube, [2]float64{2, 128}},
		{"8x8 torus", torus(8, 8), [2]float64{1, 64}},
		{"16 hosts of 8", groups(16, 8), [2]float64{1, 16*7*10 + 16}},
	} {
		r, _, err := Rings(c.g, 1)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := measure(t, c.g, order(r[0]), true); got != c.want {
			t.Errorf("%s: slowest link and sum %v, want %v", c.name, got, c.want)
		}
	}
	if _, _, err := Rings(path(40), 1); err == nil || !strings.Contains(err.Error(), "visits all 40 ranks") {
		t.Errorf("path of 40: %v", err)
	}
	for _, g := range []*topo.Graph{path(40), star(40), groups(5, 8), torus(5, 5)} {
		for _, root := range []int{0, g.Ranks / 2} {
			tr := Chain(g, root)
			if err := tr.Validate(g.Ranks); err != nil || testutil.MissingLinks(g, tr) >= 0 ||
				(tr.Note == "") != (tr.Depth() == g.Ranks-1) {
				t.Errorf("chain over %d ranks: %v\n%v", g.Ranks, err, tr)
			}
		}
	}
}

func TestRingSmall(t *testing.T) {
	for n, want := range []string{1: "[0]", 2: "[0 1]", 3: "[0 1 2]"} {
		if n == 0 {
			continue
		}
		rings, _, err := Rings(topo.UniformGraph(n), 4)
		if err != nil || len(rings) != max(1, n-1) || fmt.Sprint(order(rings[0])) != want {
			t.Errorf("n=%d: rings %v, %v", n, rings, err)
		}
		if tr := Chain(topo.UniformGraph(n), n-1); tr.Validate(n) != nil || tr.Depth() != n-1 {
			t.Errorf("n=%d: %v", n, tr)
		}
	}
	if k5, _, err := Rings(topo.UniformGraph(5), 9); err != nil || len(k5) != 4 {
		t.Errorf("rings of five ranks: %v, %v, want four", k5, err)
	}
}

// TestExchangeUntilNothingHelps: no part of an order can be turned round for less once walker.exchange has ended.
func TestExchangeUntilNothingHelps(t *testing.T) {
	for seed := range uint64(30) {
		const n = 9
		rng := rand.New(rand.NewPCG(seed, 1))
		g := topo.UniformGraph(n)
		for i := range g.Links {
			g.Links[i].GBytesPerSecond = 10 + 90*rng.Float64()
		}
		w := &walker{g: newNet(g), quickest: 100}
		order := rng.Perm(n)
		cost := func() (sum float64) {
			for i, v := range order[1:] {
				sum += w.price(order[i], v)
			}
			return sum
		}
		w.exchange(order)
		least := cost()
		for i := 1; i < len(order); i++ {
			for j := i + 1; j < len(order); j++ {
				slices.Reverse(order[i : j+1])
				if c := cost(); c < least*(1-1e-6) {
					t.Errorf("seed %d: turning %d to %d round costs %g, not %g", seed, i, j, c, least)
				}
				slices.Reverse(order[i : j+1])
			}
		}
	}
}

func TestStar(t *testing.T) {
	tr := Star(topo.UniformGraph(6), 2)
	if tr.Validate(6) != nil || tr.Depth() != 1 || tr.Root != 2 || tr.Note != "" {
		t.Errorf("%v", tr)
	}
	tr = Star(dgx1v(), 0)
	if tr.Depth() != 2 || tr.Note != "root 0 has no link with 3 of 7 ranks; this is the shallowest "+
		"spanning tree" {
		t.Errorf("%v", tr)
	}
}
