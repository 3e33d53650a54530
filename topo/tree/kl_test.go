package tree

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
)

// complete is a complete graph of n ranks with rates of 1 to 3.
func complete(n int, seed uint64) *topo.Graph {
	g := topo.UniformGraph(n)
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	for i := range g.Links {
		g.Links[i].GBytesPerSecond = float64(1 + random.IntN(3))
	}
	return g
}

// KL comes near the heaviest trees of all on the graphs that MXNet tests its
// planner with: complete, rates of 1 to 3, 2 to 16 ranks. (MXNet's own: 93 to
// 97 % where it succeeds at all.)
func TestKLAgainstExact(t *testing.T) {
	sum, worst, runs := 0.0, 1.0, 0
	for n := 2; n <= 16; n++ {
		graphs := 6
		if n > 13 {
			graphs = 1 // the exact search takes its time
		}
		for seed := range graphs {
			g := complete(n, uint64(seed))
			x := newExact(newNet(g))
			for root := 0; root < n; root += 3 {
				_, ok := newKL(newNet(g), 0, klAttempts).attempt(root)
				if !ok {
					t.Fatalf("n=%d seed %d root %d: no tree by bisection on a complete graph", n, seed, root)
				}
				tr := klTree(g, root, 0, klAttempts)
				checkTree(t, g, tr, root)
				best := x.tree(root)
				ratio := weight(g, tr) / weight(g, best)
				if tr.Round == nil || ratio > 1 {
					t.Fatalf("n=%d seed %d root %d: %v of the best\n%v", n, seed, root, ratio, tr)
				}
				sum += ratio
				worst = min(worst, ratio)
				runs++
			}
		}
	}
	t.Logf("KL reaches %.4f of the exact weight on average, %.3f at worst, in %d trees", sum/float64(runs), worst, runs)
	if sum/float64(runs) < 0.95 {
		t.Error("want 0.95")
	}
}

// Every number of ranks works, also those for which MXNet's code never finds a
// tree by bisection: 5, 9 to 11, 17 to 23.
func TestKLEverySize(t *testing.T) {
	for n := 1; n <= 40; n++ {
		g := complete(n, 1)
		for _, root := range []int{0, n / 2, n - 1} {
			tr, ok := newKL(newNet(g), 0, klAttempts).attempt(root)
			if !ok || tr.Round == nil || tr.Root != root {
				t.Errorf("n=%d root %d: %v", n, root, tr)
			}
		}
	}
}

// TestKLExchanges: no two ranks of a tree can change places for more weight.
func TestKLExchanges(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 5 + rng.IntN(8)
		g := topo.UniformGraph(n)
		for i := range g.Links {
			g.Links[i].GBytesPerSecond = 1 + 99*rng.Float64()
		}
		w := newNet(g)
		for root := range n {
			tr := newKL(w, seed, 2).tree(root)
			if better := exchange(w, tr); w.weight(better) > w.weight(tr)*(1+1e-9) {
				t.Errorf("seed %d, %d ranks, root %d: weight %g, and %g is possible", seed, n, root, w.weight(tr),
					w.weight(better))
			}
		}
	}
}

// Every connected graph gets a spanning tree of links that exist, from every
// root, the balanced one where there is one.
func TestKLEveryGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 1, 9)
		seed, attempts := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 3).Draw(t, "attempts")
		for root := range g.Ranks {
			tr := klTree(g, root, seed, attempts)
			checkTree(t, g, tr, root)
			best, err := exactTree(g, root)
			if err != nil {
				t.Fatal(err)
			}
			if balanced := tr.Round != nil; balanced != (best.Round != nil) {
				t.Fatalf("balanced is %v, not so for the exact search\n%v", balanced, tr)
			}
		}
	})
}

// Graphs on which MXNet's planner dies or uses links that are not there.
func TestKLTraps(t *testing.T) {
	for _, c := range []struct {
		name string
		g    *topo.Graph
	}{
		{"star of 4", star(4)}, {"star of 9", star(9)}, {"path of 8", path(8)}, {"path of 17", path(17)},
		{"ring of 5", ring(5)}, {"ring of 8, as MXNet saw a p3dn.24xlarge", ring(8)}, {"ring of 9", ring(9)},
		{"ring of 10", ring(10)}, {"ring of 23", ring(23)}, {"ring of 300", ring(300)}, {"path of 1100", path(1100)},
		{"3x3 torus", torus(3, 3)}, {"2x5 torus", torus(2, 5)}, {"8x8 torus", torus(8, 8)},
	} {
		for _, root := range []int{0, c.g.Ranks - 1} {
			checkTree(t, c.g, klTree(c.g, root, 0, klAttempts), root)
		}
	}
}

func ring(n int) *topo.Graph {
	g := path(n)
	g.Links = append(g.Links, topo.Link{A: n - 1, B: 0, GBytesPerSecond: 1})
	return g
}

func torus(rows, columns int) *topo.Graph {
	g := &topo.Graph{Ranks: rows * columns}
	link := func(a, b int) {
		for _, l := range g.Links {
			if l.A == a && l.B == b || l.A == b && l.B == a {
				return
			}
		}
		g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: 1})
	}
	for r := range rows {
		for c := range columns {
			link(r*columns+c, r*columns+(c+1)%columns)
			link(r*columns+c, (r+1)%rows*columns+c)
		}
	}
	return g
}

// A pass climbs over a hill: the two pairs {0,1} {2,3} that are strong inside
// are apart, and no single exchange makes the cut lighter.
func TestBisectionClimbs(t *testing.T) {
	g := &topo.Graph{Ranks: 8}
	add := func(a, b int, rate float64) {
		g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: rate})
	}
	add(0, 1, 5)
	add(4, 5, 5)
	add(2, 3, 4)
	add(6, 7, 4)
	add(1, 6, 1)
	add(5, 2, 1)
	// The halves {0,1,2,3} and {4,5,6,7} cut 2. The best, {0,1,6,7}, cuts 0; it
	// is two exchanges away, and the first of them cuts a strong pair.
	b := newBisection(newNet(g), []int{0, 1, 2, 3, 4, 5, 6, 7})
	b.start()
	if _, _, gain := b.choose(); gain >= 0 {
		t.Fatalf("the first exchange gains %v: there is no hill to climb", gain)
	}
	if !b.pass() {
		t.Fatal("the pass found nothing better")
	}
	cut := 0.0
	for _, u := range b.ranks[:4] {
		for _, v := range b.ranks[4:] {
			cut += g.Rates().At(u, v)
		}
	}
	if cut != 0 {
		t.Errorf("cut %v of halves %v, want 0", cut, b.ranks)
	}
}

// No balanced halves of at most 8 ranks are lighter than those of a few
// bisections from random starts.
func TestBisectionAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 2, 8)
		m, w, n := g.Rates(), newNet(g), g.Ranks
		least := 1e9
		for set := range 1 << n {
			size, cut := 0, 0.0
			for u := range n {
				size += set >> u & 1
				for v := range u {
					if set>>u&1 != set>>v&1 {
						cut += m.At(u, v)
					}
				}
			}
			if size == n/2 {
				least = min(least, cut)
			}
		}
		found := 1e9
		for i := range 12 {
			random := rand.New(rand.NewPCG(3, uint64(i)))
			c := newKL(w, 0, klAttempts).bisect(i+1, random)
			cut := 0.0
			for _, u := range c.halves[0].ranks {
				for _, v := range c.halves[1].ranks {
					cut += m.At(u, v)
				}
			}
			found = min(found, cut)
		}
		if found > least {
			t.Fatalf("the lightest cut is %v, found %v", least, found)
		}
	})
}

// The penalty spreads the trees over the links, 1 lets them crowd.
func TestKLPenalty(t *testing.T) {
	g := complete(8, 5)
	most := map[float64]int{}
	for _, penalty := range []float64{0, LinkUsagePenalty, 1} {
		trees := KL(g, penalty, 0)
		uses := map[[2]int]int{}
		for r, tr := range trees {
			checkTree(t, g, tr, r)
			if tr.Round == nil {
				t.Errorf("penalty %v, root %d: not balanced", penalty, r)
			}
			for v, p := range tr.Parent {
				if p >= 0 {
					uses[[2]int{min(v, p), max(v, p)}]++
				}
			}
		}
		for _, k := range uses {
			most[penalty] = max(most[penalty], k)
		}
	}
	if most[1] <= most[LinkUsagePenalty] || most[LinkUsagePenalty] > 5 || most[0] > 5 {
		t.Errorf("uses of the busiest link by penalty: %v", most)
	}
}

// The same seed gives the same trees; the seed matters where links are equal.
func TestKLSeed(t *testing.T) {
	g := complete(24, 2)
	a, b := klTree(g, 3, 1, klAttempts), klTree(g, 3, 1, klAttempts)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Error("one seed, two trees")
	}
	other := false
	for seed := range uint64(8) {
		c := klTree(g, 3, seed+2, klAttempts)
		other = other || fmt.Sprint(a) != fmt.Sprint(c)
	}
	if !other {
		t.Error("nine seeds, one tree")
	}
}

func BenchmarkKL(b *testing.B) {
	for _, n := range []int{8, 16, 64, 256} {
		g := groups(n/4, 4)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			for b.Loop() {
				KL(g, LinkUsagePenalty, 0)
			}
		})
	}
}

func BenchmarkOneTreeOf512(b *testing.B) {
	g := groups(64, 8)
	for b.Loop() {
		klTree(g, 0, 0, klAttempts)
	}
}
