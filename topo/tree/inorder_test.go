package tree

import (
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// Below every inner rank of a tree in order lie ranks that follow each other: those before
// a rank, which the link between sums carries, and its own group.
func TestInOrder(t *testing.T) {
	dgx, _ := topo.Machine("dgx1v")
	path := &topo.Graph{Ranks: 5}
	for r := range 4 {
		path.Links = append(path.Links, topo.Link{A: r, B: r + 1, GBytesPerSecond: 1})
	}
	for _, g := range []*topo.Graph{dgx, path, topo.UniformGraph(6), {Ranks: 1}} {
		trees := InOrder(g, 4)
		if len(trees) != 4 {
			t.Fatalf("%d trees of %d ranks, want 4", len(trees), g.Ranks)
		}
		for _, tree := range trees {
			if err := tree.Validate(g.Ranks); err != nil || testutil.MissingLinks(g, tree) >= 0 {
				t.Fatalf("%v: %v", tree, err)
			}
			for v, children := range tree.Children() {
				inner := 0
				for _, c := range children {
					if len(tree.Children()[c]) > 0 {
						inner++
					}
				}
				if inner > 1 {
					t.Errorf("%v: rank %d gets %d sums", tree, v, inner)
				}
			}
		}
	}
	star := &topo.Graph{Ranks: 4} // round rank 3: ranks 0 and 1 have no link
	for r := range 3 {
		star.Links = append(star.Links, topo.Link{A: r, B: 3, GBytesPerSecond: 1})
	}
	star.Ranks = 5
	star.Links = append(star.Links, topo.Link{A: 0, B: 4, GBytesPerSecond: 1})
	if trees := InOrder(star, 2); trees != nil {
		t.Errorf("%v: want none", trees)
	}
}
