package plan

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// randomTree is a random tree with a root.
func randomTree(random *rand.Rand, n, root int) topo.Tree {
	t := topo.Tree{Root: root, Parent: make([]int, n)}
	t.Parent[root] = -1
	inside := []int{root}
	for _, v := range random.Perm(n) {
		if v != root {
			t.Parent[v] = inside[random.IntN(len(inside))]
			inside = append(inside, v)
		}
	}
	return t
}

// Plans from any trees of parts, any number per part and in any order, are correct.
func TestPartTreesVerify(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		n := 1 + random.IntN(9)
		var trees []topo.Tree
		var weights []float64
		for root := range n {
			for range 1 + random.IntN(3) {
				trees = append(trees, randomTree(random, n, root))
				weights = append(weights, 0.1+random.Float64())
			}
		}
		random.Shuffle(len(trees), func(i, j int) { trees[i], trees[j] = trees[j], trees[i] })
		for _, kind := range []Kind{AllGather, ReduceScatter} {
			p, err := FromPartTrees(kind, trees, weights)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Lanes) != len(trees) {
				t.Errorf("%d lanes for %d trees", len(p.Lanes), len(trees))
			}
			if err := Verify(p, 2); err != nil {
				t.Errorf("%v of %d ranks: %v", kind, n, err)
			}
		}
	}
}

func TestPartTreesRefused(t *testing.T) {
	two := []topo.Tree{{Root: 0, Parent: []int{-1, 0}}, {Root: 1, Parent: []int{1, -1}}}
	for _, c := range []struct {
		kind  Kind
		trees []topo.Tree
		want  string
	}{
		{AllReduce, two, "it has no allreduce"},
		{AllGather, nil, "no trees"},
		{AllGather, two[:1], "no lane carries part 1"},
		{ReduceScatter, []topo.Tree{{Root: 0, Parent: []int{-1, 1}}}, "tree 0"},
	} {
		if _, err := FromPartTrees(c.kind, c.trees, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}
