package tree

import (
	"math/rand/v2"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
)

// bruteForce tries every reduce tree of the given number of rounds with the given root: in every round every rank that
// is left is idle, sends or receives. It returns the largest weight, none without a tree.
func bruteForce(m topo.Matrix, root, rounds int) float64 {
	left := make([]bool, m.N)
	for v := range left {
		left[v] = true
	}
	return bruteRound(m, root, rounds, left)
}

func bruteRound(m topo.Matrix, root, rounds int, left []bool) float64 {
	count := 0
	for _, here := range left {
		if here {
			count++
		}
	}
	if count == 1 {
		return 0
	}
	if count > 1<<rounds {
		return none
	}
	return bruteMatch(m, root, rounds, 0, left, make([]bool, m.N))
}

// bruteMatch decides whether rank v is idle, sends or receives in this round; the lower ones have decided.
func bruteMatch(m topo.Matrix, root, rounds, v int, left, busy []bool) float64 {
	for v < m.N && (!left[v] || busy[v]) {
		v++
	}
	if v == m.N {
		return bruteRound(m, root, rounds-1, left)
	}
	best := bruteMatch(m, root, rounds, v+1, left, busy) // idle
	busy[v] = true
	for u := v + 1; u < m.N; u++ {
		if !left[u] || busy[u] || m.At(u, v) == 0 {
			continue
		}
		busy[u] = true
		for _, sender := range []int{u, v} {
			if sender != root {
				left[sender] = false
				best = max(best, m.At(u, v)+bruteMatch(m, root, rounds, v+1, left, busy))
				left[sender] = true
			}
		}
		busy[u] = false
	}
	busy[v] = false
	return best
}

// drawGraph draws a connected graph: a random spanning tree and each other
// link with a chance.
func drawGraph(t *rapid.T, least, most int) *topo.Graph {
	n := rapid.IntRange(least, most).Draw(t, "n")
	density := rapid.IntRange(0, 10).Draw(t, "density")
	g := &topo.Graph{Ranks: n}
	names := rapid.Permutation(numbers.Below(n)).Draw(t, "names")
	for b := range n {
		parent := rapid.IntRange(0, max(0, b-1)).Draw(t, "parent")
		for a := range b {
			if a == parent || rapid.IntRange(1, 10).Draw(t, "link") <= density {
				rate := float64(rapid.IntRange(1, 3).Draw(t, "rate"))
				g.Links = append(g.Links, topo.Link{A: names[a], B: names[b], GBytesPerSecond: rate})
			}
		}
	}
	return g
}

// weight is the sum of the rates of a tree's links.
func weight(g *topo.Graph, tr topo.Tree) float64 { return newNet(g).weight(tr) }

// oneTree is the tree of one root that a builder of trees for all roots makes.
func oneTree(build func(*topo.Graph) ([]topo.Tree, error)) func(*topo.Graph, int) (topo.Tree, error) {
	return func(g *topo.Graph, root int) (topo.Tree, error) {
		trees, err := build(g)
		if err != nil {
			return topo.Tree{}, err
		}
		return trees[root], nil
	}
}

// exactTree and klTree are the trees of one root by themselves.
var exactTree = oneTree(Exact)

func klTree(g *topo.Graph, root int, seed uint64, attempts int) topo.Tree {
	return newKL(newNet(g), seed, attempts).tree(root)
}

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
