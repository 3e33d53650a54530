package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// TestOwnTree: on request of exact or kl, a collective with a root that runs over one tree runs over the tree of its
// root, whatever the size of the message, and the one that exact takes has the largest sum of rates.
func TestOwnTree(t *testing.T) {
	graphs := []*topo.Graph{{Ranks: 4, Links: []topo.Link{
		{A: 0, B: 1, GBytesPerSecond: 25}, {A: 0, B: 2, GBytesPerSecond: 25}, {A: 0, B: 3, GBytesPerSecond: 50},
		{A: 1, B: 2, GBytesPerSecond: 50}, {A: 1, B: 3, GBytesPerSecond: 25}, {A: 2, B: 3, GBytesPerSecond: 50},
	}}}
	for seed := range uint64(12) {
		graphs = append(graphs, randomGraph(3+int(seed%6), rand.New(rand.NewPCG(seed, 1))))
	}
	alone, together := 0, 0
	for i, g := range graphs {
		balanced, err := tree.Exact(g)
		if err != nil {
			t.Fatal(err)
		}
		trees := map[string][]topo.Tree{"exact": balanced, "kl": tree.KL(g, tree.LinkUsagePenalty, 0)}
		trees["exact:all"], trees["kl:all"] = trees["exact"], trees["kl"]
		for algorithm, list := range trees {
			p := plannerOf(t, g, Options{Algorithm: algorithm})
			for root := range g.Ranks {
				for _, kind := range []plan.Kind{plan.Reduce, plan.Broadcast} {
					for _, bytes := range []int64{8, 4 << 10, 1 << 20, 64 << 20} {
						c := choose(t, p, kind, root, bytes).Chosen
						if c.Used() > 1 {
							together++
							if algorithm == "exact" {
								t.Errorf("graph %d, %v of %d bytes from %d by %s uses %d trees", i, kind, bytes, root,
									c.Name(), c.Used())
							}
							continue
						}
						alone++
						got := c.Candidate.Channels[slices.Index(c.Shares, slices.Max(c.Shares))].Tree
						if want := list[root]; fmt.Sprint(got) != fmt.Sprint(want) {
							t.Errorf("graph %d, %v of %d bytes from %d by %s over %v, want %v", i, kind, bytes, root,
								c.Name(), got, want)
						}
					}
				}
			}
		}
	}
	if alone < 100 || together < 100 {
		t.Errorf("%d times one tree, %d times several", alone, together)
	}
	weight, rates := 0.0, graphs[0].Rates()
	c := choose(t, plannerOf(t, graphs[0], Options{Algorithm: "exact"}), plan.Reduce, 3, 64<<20).Chosen
	for v, p := range c.Candidate.Channels[slices.Index(c.Shares, slices.Max(c.Shares))].Tree.Links() {
		weight += rates.At(v, p)
	}
	if weight != 150 {
		t.Errorf("the tree of root 3 has links of %v GB/s together, want 150", weight)
	}
}
