package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
)

// allKinds are those that run over trees and rings.
var allKinds = []Kind{AllReduce, Reduce, Broadcast, Barrier, AllGather, ReduceScatter}

// drawTree draws any spanning tree of n ranks, without rounds.
func drawTree(t *rapid.T, n int, label string) topo.Tree {
	order := rapid.Permutation(ranks(n)).Draw(t, label)
	tree := topo.Tree{Root: order[0], Parent: make([]int, n)}
	tree.Parent[order[0]] = -1
	for i := 1; i < n; i++ {
		tree.Parent[order[i]] = order[rapid.IntRange(0, i-1).Draw(t, "parent")]
	}
	return tree
}

func ranks(n int) []int {
	r := make([]int, n)
	for i := range r {
		r[i] = i
	}
	return r
}

// Every plan from any trees is right, with any number of slots.
func TestFromTreesIsVerified(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		kind := rapid.SampledFrom(allKinds).Draw(t, "kind")
		form := rapid.SampledFrom([]Form{Single, Split}).Draw(t, "form")
		trees := []topo.Tree{drawTree(t, n, "tree")}
		if !kind.HasRoot() {
			for range rapid.IntRange(0, 2).Draw(t, "more") {
				trees = append(trees, drawTree(t, n, "another"))
			}
		}
		p, err := FromTrees(kind, trees, nil, form)
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(p, rapid.IntRange(1, 9).Draw(t, "slots")); err != nil {
			t.Fatalf("%v\n%v", err, p)
		}
	})
}

// A tree of n ranks moves every chunk over each of its links once up, once
// down, and never stores more than it must: an inner rank with one child
// stores nothing on the way up.
func TestFromTreesSteps(t *testing.T) {
	chain := topo.Tree{Root: 0, Parent: []int{-1, 0, 1, 2}}
	p, err := FromTrees(AllReduce, []topo.Tree{chain}, nil, Single)
	if err != nil {
		t.Fatal(err)
	}
	want := `tree(root 0): allreduce over 4 ranks
lane 0, weight 1
  rank 0    out, to 1 = in + from 1
  rank 1    to 0 = in + from 2
            out, to 2 = from 0
  rank 2    to 1 = in + from 3
            out, to 3 = from 1
  rank 3    to 2 = in
            out = from 2
`
	if got := p.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := fmt.Sprint(p.Links()), "[{0 0 1} {0 1 0} {0 1 2} {0 2 1} {0 2 3} {0 3 2}]"; got != want {
		t.Errorf("links %s, want %s", got, want)
	}
}

func TestFromTreesRefuses(t *testing.T) {
	two := topo.Tree{Root: 0, Parent: []int{-1, 0}}
	other := topo.Tree{Root: 1, Parent: []int{1, -1}}
	loop := topo.Tree{Root: 0, Parent: []int{-1, 2, 1}}
	for _, c := range []struct {
		name    string
		kind    Kind
		trees   []topo.Tree
		weights []float64
		want    string
	}{
		{"no kind", 0, []topo.Tree{two}, nil, "Kind(0)"},
		{"no trees", AllReduce, nil, nil, "no trees"},
		{"zero weight", AllReduce, []topo.Tree{two}, []float64{0}, "weight 0"},
		{"two roots", Reduce, []topo.Tree{two, other}, nil, "tree 1 has root 1, tree 0 has 0"},
		{"two sizes", AllReduce, []topo.Tree{two, loop}, nil, "tree 1: tree has parents for 3 ranks, want 2"},
		{"a loop", AllReduce, []topo.Tree{loop}, nil, "cycle"},
	} {
		_, err := FromTrees(c.kind, c.trees, c.weights, Single)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
}
