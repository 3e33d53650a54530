package tree

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// row is one rank of a printed table: parent and children in both trees.
type row [6]int

// The tables are those printed in the design note on NCCL's trees ("test
// program output"), made by NCCL 2.4's rule for 12 ranks and by a mirror
// r -> n-r for 13. The note prints the parent 13 for rank 5 of 13, which no
// tree of 13 ranks can have; 0 is meant, the rank that names 5 as its child.
var (
	printed12 = []row{
		{-1, 8, -1, 11, -1, -1}, {2, -1, -1, -1, 9, -1}, {4, 1, 3, 3, -1, -1}, {2, -1, -1, 5, 2, 4},
		{8, 2, 6, 3, -1, -1}, {6, -1, -1, 9, 3, 7}, {4, 5, 7, 7, -1, -1}, {6, -1, -1, 5, 6, 8},
		{0, 4, 10, 7, -1, -1}, {10, -1, -1, 1, 5, 11}, {8, 9, 11, 11, -1, -1}, {10, -1, -1, 9, 10, 0},
	}
	printed13 = []row{
		{-1, 8, -1, -1, 5, -1}, {2, -1, -1, 5, 3, -1}, {4, 1, 3, 3, -1, -1}, {2, -1, -1, 1, 4, 2},
		{8, 2, 6, 3, -1, -1}, {6, -1, -1, 0, 9, 1}, {4, 5, 7, 7, -1, -1}, {6, -1, -1, 9, 8, 6},
		{0, 4, 12, 7, -1, -1}, {10, -1, -1, 5, 11, 7}, {12, 9, 11, 11, -1, -1}, {10, -1, -1, 9, 12, 10},
		{8, 10, -1, 11, -1, -1},
	}
)

// The second trees of the tables are not those of NCCL since 2.8, which takes the one rule
// for odd and the other for even numbers of ranks.
func TestDoubleBinaryPrintedTables(t *testing.T) {
	for _, c := range []struct {
		table []row
		rank  func(place int) int // in the second tree
	}{
		{printed12, func(v int) int { return (v + 1) % 12 }},
		{printed13, func(v int) int { return (13 - v) % 13 }},
	} {
		n := len(c.table)
		order := make([]int, n)
		for v := range order {
			order[v] = c.rank(v)
		}
		first := DoubleBinary(n)[0]
		for which, tr := range []topo.Tree{first, first.Renamed(order)} {
			children := tr.Children()
			for r, want := range c.table {
				list := slices.Sorted(slices.Values(children[r]))
				printed := slices.DeleteFunc(slices.Sorted(slices.Values(want[3*which+1:3*which+3])),
					func(v int) bool { return v < 0 })
				if tr.Parent[r] != want[3*which] || !slices.Equal(list, printed) {
					t.Errorf("rank %d of %d, tree %d: parent %d, children %v, want %v", r, n, which, tr.Parent[r], list, want)
				}
			}
		}
	}
}

// For every n up to 1200, and some above: both trees are spanning trees of depth ceil(log2 n), no rank has more than
// two children in a tree, and no rank is inside both trees, but exactly rank 0 when n is odd.
func TestDoubleBinaryProperties(t *testing.T) {
	for n := 1; n <= 4097; n++ {
		if n > 1200 && n%41 > 1 && n < 4095 {
			continue
		}
		inside := make([]int, n) // by rank: the trees in which it has a child
		for which, tr := range DoubleBinary(n) {
			if err := tr.Validate(n); err != nil || tr.Depth() != topo.Rounds(n) {
				t.Fatalf("n=%d, tree %d: %v, depth %d", n, which, err, tr.Depth())
			}
			for r, list := range tr.Children() {
				if len(list) > 2 {
					t.Fatalf("n=%d, tree %d: rank %d has children %v", n, which, r, list)
				}
				inside[r] += min(1, len(list))
			}
		}
		for r, k := range inside {
			if both := n > 1 && n%2 == 1 && r == 0; k > 1 != both {
				t.Fatalf("n=%d: rank %d is inside %d trees", n, r, k)
			}
		}
	}
}

// The root of tree 1 is n-1 for even n and 1 for odd, as NCCL has it.
func TestDoubleBinaryRoots(t *testing.T) {
	for n, root := range map[int]int{2: 1, 3: 1, 8: 7, 12: 11, 13: 1, 4096: 4095, 24577: 1} {
		if got := DoubleBinary(n)[1].Root; got != root {
			t.Errorf("n=%d: root of tree 1 is %d, want %d", n, got, root)
		}
	}
}

// On a graph, the trees use links that exist, and a graph that has all links
// gets the trees without a note.
func TestDoubleBinaryOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 1, 20)
		trees := DoubleBinaryOn(g)
		for _, tr := range trees {
			if err := tr.Validate(g.Ranks); err != nil {
				t.Fatal(err)
			}
			if v := testutil.MissingLinks(g, tr); v >= 0 {
				t.Fatalf("no link from %d to its parent\n%v", v, tr)
			}
			complete := len(g.Links) == g.Ranks*(g.Ranks-1)/2
			if complete && (tr.Note != "" || tr.Depth() != topo.Rounds(g.Ranks)) {
				t.Fatalf("a complete graph has all links the tree needs\n%v", tr)
			}
			if tr.Note == "" && tr.Depth() != topo.Rounds(g.Ranks) {
				t.Fatalf("depth %d and no note\n%v", tr.Depth(), tr)
			}
		}
	})
}

// Ranks that stand on two hosts in turn: the ranks are put in an order that
// crosses between the hosts seldom, where the order they have crosses at the
// half of all links.
func TestDoubleBinaryOnPrefersQuickLinks(t *testing.T) {
	g := topo.UniformGraph(16)
	for i, l := range g.Links {
		if l.A%2 == l.B%2 {
			g.Links[i].GBytesPerSecond = 10
		}
	}
	trees := DoubleBinaryOn(g)
	asTheyAre, found := 0.0, 0.0
	for i, tr := range DoubleBinary(16) {
		asTheyAre += weight(g, tr)
		found += weight(g, trees[i])
	}
	if found < 1.3*asTheyAre {
		t.Errorf("the trees weigh %v, in the order of the ranks %v", found, asTheyAre)
	}
}
