package tree

import (
	"fmt"
	"testing"

	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
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

func TestDoubleBinaryPrintedTables(t *testing.T) {
	for _, c := range []struct {
		table []row
		v     Variant
	}{{printed12, Shift}, {printed13, Mirror}} {
		for r, want := range c.table {
			n := len(c.table)
			p0, c0 := Neighbours(n, r, 0, c.v)
			p1, c1 := Neighbours(n, r, 1, c.v)
			if got := (row{p0, c0[0], c0[1], p1, c1[0], c1[1]}); got != want {
				t.Errorf("rank %d of %d, variant %d: got %v, want %v", r, n, c.v, got, want)
			}
		}
	}
}

// For every n up to 4096: both trees are spanning trees of depth
// ceil(log2 n), parents and children agree, nobody has more than two children
// in a tree, and nobody is inside both trees, but exactly rank 0 when n is odd.
// Every tree pair of Current is one of Shift or of Mirror, so the other two are
// looked at for fewer n.
func TestDoubleBinaryProperties(t *testing.T) {
	var c doubleCheck
	for n := 1; n <= 4096; n++ {
		for _, v := range []Variant{Current, Shift, Mirror} {
			if v != Current && n > 200 && n%41 > 1 {
				continue
			}
			if err := c.check(n, v); err != nil {
				t.Fatalf("n=%d, variant %d: %v", n, v, err)
			}
		}
	}
	for n := range 40 {
		for which, tr := range DoubleBinary(n+1, Current) {
			for r := range n + 1 {
				if p, _ := Neighbours(n+1, r, which, Current); p != tr.Parent[r] {
					t.Errorf("n=%d: rank %d of tree %d: parent %d in the tree, %d alone", n+1, r, which, tr.Parent[r], p)
				}
			}
		}
	}
}

// doubleCheck checks the neighbours of all ranks; its slices are used again.
type doubleCheck struct {
	parent, depth []int
	children      [][2]int
	inside        []int // by rank: the trees in which it has a child
}

func (c *doubleCheck) check(n int, v Variant) error {
	c.inside = append(c.inside[:0], make([]int, n)...)
	for which := range 2 {
		if err := c.tree(n, which, v); err != nil {
			return fmt.Errorf("tree %d: %w", which, err)
		}
	}
	for r, k := range c.inside {
		if both := n > 1 && n%2 == 1 && r == 0; k > 1 != both {
			return fmt.Errorf("rank %d is inside %d trees", r, k)
		}
	}
	return nil
}

func (c *doubleCheck) tree(n, which int, v Variant) error {
	c.parent, c.children, c.depth = c.parent[:0], c.children[:0], c.depth[:0]
	for r := range n {
		p, kids := Neighbours(n, r, which, v)
		c.parent, c.children, c.depth = append(c.parent, p), append(c.children, kids), append(c.depth, -1)
		if kids[0] >= 0 {
			c.inside[r]++
		}
	}
	named, deepest := 0, 0
	for r, kids := range c.children {
		if kids[0] < 0 && kids[1] >= 0 || kids[0] >= 0 && kids[0] == kids[1] {
			return fmt.Errorf("rank %d has children %v", r, kids)
		}
		for _, k := range kids {
			switch {
			case k >= n || k >= 0 && c.parent[k] != r:
				return fmt.Errorf("rank %d has child %d, which has another parent", r, k)
			case k >= 0:
				named++
			}
		}
		d := c.measure(r, n)
		if d < 0 {
			return fmt.Errorf("rank %d does not reach the root", r)
		}
		deepest = max(deepest, d)
	}
	if named != n-1 || deepest != topo.Rounds(n) {
		return fmt.Errorf("%d children and depth %d, want %d and %d", named, deepest, n-1, topo.Rounds(n))
	}
	return nil
}

// measure returns the depth of rank r, -1 when its ancestors are more than n.
func (c *doubleCheck) measure(r, n int) int {
	if n < 0 {
		return -1
	}
	if c.depth[r] < 0 {
		switch p := c.parent[r]; {
		case p < 0:
			c.depth[r] = 0
		default:
			up := c.measure(p, n-1)
			if up < 0 {
				return -1
			}
			c.depth[r] = up + 1
		}
	}
	return c.depth[r]
}

// Current is NCCL's rule: the root of tree 1 is n-1 for even n and 1 for odd.
func TestDoubleBinaryCurrent(t *testing.T) {
	for n, root := range map[int]int{2: 1, 3: 1, 8: 7, 12: 11, 13: 1, 4096: 4095, 24577: 1} {
		if p, _ := Neighbours(n, root, 1, Current); p != -1 {
			t.Errorf("n=%d: parent of %d in tree 1 is %d, want none", n, root, p)
		}
	}
}

// On a graph, the trees use links that exist, and a graph that has all links
// gets the trees without a note.
func TestDoubleBinaryOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, 1, 20)
		trees, err := DoubleBinaryOn(g, Current)
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range trees {
			if err := tr.Validate(g.Ranks); err != nil {
				t.Fatal(err)
			}
			if v := tr.Missing(g); v >= 0 {
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
	trees, err := DoubleBinaryOn(g, Mirror)
	if err != nil {
		t.Fatal(err)
	}
	asTheyAre, found := 0.0, 0.0
	for i, tr := range DoubleBinary(16, Mirror) {
		asTheyAre += tr.Weight(g)
		found += trees[i].Weight(g)
	}
	if found < 1.3*asTheyAre {
		t.Errorf("the trees weigh %v, in the order of the ranks %v", found, asTheyAre)
	}
}

func BenchmarkNeighbours(b *testing.B) {
	const n = 24576
	b.ReportAllocs()
	r := 0
	for b.Loop() {
		for which := range 2 {
			if p, _ := Neighbours(n, r, which, Current); p >= n {
				b.Fatal("parent out of range")
			}
		}
		r = (r + 7919) % n
	}
}
