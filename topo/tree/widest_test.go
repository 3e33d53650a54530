package tree

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// slowest is the rate of a tree's slowest link.
func slowest(m topo.Matrix, tr topo.Tree) float64 {
	least := 1e18
	for v, p := range tr.Parent {
		if p >= 0 {
			least = min(least, m.At(v, p))
		}
	}
	return least
}

// bruteWidest is the largest smallest rate of a reduce tree of so many rounds,
// and the largest weight of the trees that have it: brute force over the links
// of at least every rate in turn.
func bruteWidest(g *topo.Graph, root, rounds int) (rate, weight float64) {
	for _, l := range g.Links {
		if l.GBytesPerSecond <= rate {
			continue
		}
		m := topo.Matrix{N: g.Ranks, V: make([]float64, g.Ranks*g.Ranks)}
		for _, k := range g.Links {
			if k.GBytesPerSecond >= l.GBytesPerSecond {
				m.Set(k.A, k.B, k.GBytesPerSecond)
			}
		}
		if w := bruteForce(m, root, rounds); w != none {
			rate, weight = l.GBytesPerSecond, w
		}
	}
	return rate, weight
}

// sample is a connected graph of the given number of ranks: a random spanning
// tree and each other link with a chance of its own, rates of 1 to 4. (rapid
// prefers small graphs and few links; these do not.)
func sample(n int, seed uint64) *topo.Graph {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	g := &topo.Graph{Ranks: n}
	names, density := random.Perm(n), random.Float64()
	for b := 1; b < n; b++ {
		parent := random.IntN(b)
		for a := range b {
			if a == parent || random.Float64() < density {
				g.Links = append(g.Links, topo.Link{A: names[a], B: names[b], GBytesPerSecond: float64(1 + random.IntN(4))})
			}
		}
	}
	return g
}

// The slowest link of ExactWidest's tree is as quick as that of any tree of as
// few rounds, and no tree with such a slowest link is heavier.
func TestExactWidestAgainstBruteForce(t *testing.T) {
	differs, deeper := 0, 0
	for seed := range uint64(240) {
		g := sample(1+int(seed%7), seed)
		root := int(seed/7) % g.Ranks
		tr, err := ExactWidest(g, root)
		if err != nil {
			t.Fatal(err)
		}
		checkTree(t, g, tr, root)
		heavy, err := Exact(g, root)
		if err != nil {
			t.Fatal(err)
		}
		if tr.IsBalanced() != heavy.IsBalanced() {
			t.Fatalf("balanced is %v, for the heaviest tree %v", tr.IsBalanced(), heavy.IsBalanced())
		}
		if !tr.IsBalanced() {
			deeper++
		}
		if g.Ranks == 1 || strings.Contains(tr.Note, "shallowest") {
			continue
		}
		for rounds := topo.Rounds(g.Ranks); ; rounds++ {
			rate, weight := bruteWidest(g, root, rounds)
			if rate == 0 {
				continue
			}
			if got := slowest(g.Rates(), tr); got != rate || tr.Weight(g) != weight {
				t.Fatalf("slowest link %v, weight %v; want %v, %v\n%v", got, tr.Weight(g), rate, weight, tr)
			}
			break
		}
		if slowest(g.Rates(), heavy) < slowest(g.Rates(), tr) {
			differs++
		}
	}
	if differs < 5 || deeper < 5 {
		t.Errorf("%d graphs where the heaviest tree is not the widest, %d without a balanced tree: the sample shows too little", differs, deeper)
	}
}

func TestExactWidestErrors(t *testing.T) {
	if _, err := ExactWidest(topo.UniformGraph(17), 0); err == nil || !strings.Contains(err.Error(), "17 ranks") {
		t.Errorf("17 ranks: %v", err)
	}
	if _, err := ExactWidest(topo.UniformGraph(3), 3); err == nil || !strings.Contains(err.Error(), "root 3") {
		t.Errorf("root 3 of 3: %v", err)
	}
	tr, err := ExactWidest(star(9), 0)
	if err != nil || !strings.Contains(tr.Note, "shallowest") {
		t.Errorf("star of 9: %v, %v", tr, err)
	}
}

// Exact on larger graphs than rapid likes to draw: as heavy as the heaviest of
// all trees of as few rounds.
func TestExactSample(t *testing.T) {
	for seed := range uint64(90) {
		g := sample(5+int(seed%3), seed+1000)
		root := int(seed) % g.Ranks
		tr, err := Exact(g, root)
		if err != nil {
			t.Fatal(err)
		}
		if want := bruteForce(g.Rates(), root, topo.Rounds(g.Ranks)); tr.IsBalanced() != (want != none) || want != none && tr.Weight(g) != want {
			t.Errorf("seed %d: weight %v, balanced %v; the best of all has %v", seed, tr.Weight(g), tr.IsBalanced(), want)
		}
	}
}
