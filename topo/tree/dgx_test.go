package tree

import (
	"math/bits"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// dgx1v is the hybrid cube mesh of eight V100: 50 GB/s on double NVLinks, 25
// on single ones.
func dgx1v() *topo.Graph {
	g := &topo.Graph{Name: "dgx1v", Ranks: 8}
	for rate, pairs := range map[float64]string{50: "03 04 12 15 23 47 56 67", 25: "01 02 13 26 37 45 46 57"} {
		for _, p := range strings.Fields(pairs) {
			g.Links = append(g.Links, topo.Link{A: int(p[0] - '0'), B: int(p[1] - '0'), GBytesPerSecond: rate})
		}
	}
	return g
}

// subset is g without the ranks that are not in the bits of keep.
func subset(g *topo.Graph, keep int) *topo.Graph {
	index := make([]int, g.Ranks)
	s := &topo.Graph{}
	for v := range g.Ranks {
		index[v] = -1
		if keep>>v&1 == 1 {
			index[v] = s.Ranks
			s.Ranks++
		}
	}
	for _, l := range g.Links {
		if l.A, l.B = index[l.A], index[l.B]; l.A >= 0 && l.B >= 0 {
			s.Links = append(s.Links, l)
		}
	}
	return s
}

// MXNet's planner, run on every NVLink-connected subset of a DGX-1V, aborts on many; 24 of the 56 subsets of five GPUs
// have a root from which no balanced tree exists at all. Exact finds a tree for each root of each subset, and reports
// the missing balanced tree for the same 24.
func TestDGX1Subsets(t *testing.T) {
	g := dgx1v()
	without := 0
	for keep := 1; keep < 1<<8; keep++ {
		s := subset(g, keep)
		if len(s.Components()) > 1 {
			continue
		}
		deeper := false
		for root := range s.Ranks {
			tr, err := exactTree(s, root)
			if err != nil {
				t.Fatal(err)
			}
			checkTree(t, s, tr, root)
			deeper = deeper || tr.Round == nil
		}
		if s.Ranks == 5 && deeper {
			without++
		}
	}
	if without != 24 {
		t.Errorf("%d subsets of five GPUs have a root without a balanced tree, want 24", without)
	}
}

// MXNet's proposal: for 6 GPUs (in an earlier text, 6 or 7) Kernighan and Lin's clustering sometimes gets stuck, as no
// link leads from a root into the other cluster. Over all roots of all subsets of a DGX-1V it does so here, too, in one
// attempt and seldom in klAttempts, and never with all eight. KL nevertheless gives a balanced tree wherever there is
// one.
func TestKLGetsStuck(t *testing.T) {
	g := dgx1v()
	for size, want := range map[int][3]int{5: {124, 62, 24}, 6: {71, 48, 0}, 7: {18, 4, 0}, 8: {0, 0, 0}} {
		var got [3]int
		for keep := range 1 << 8 {
			if bits.OnesCount(uint(keep)) != size {
				continue
			}
			s := subset(g, keep)
			for root := range size {
				for i, attempts := range []int{1, klAttempts} {
					if _, ok := newKL(newNet(s), 0, attempts).attempt(root); !ok {
						got[i]++
					}
				}
				tr := klTree(s, root, 0, klAttempts)
				checkTree(t, s, tr, root)
				if tr.Round == nil {
					got[2]++
				}
			}
		}
		if got != want {
			t.Errorf("%d GPUs: stuck at %d roots in one attempt, at %d in %d, and %d deeper trees, want %v", size,
				got[0], got[1], klAttempts, got[2], want)
		}
	}
}
