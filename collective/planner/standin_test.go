package planner

import (
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// TestStandIn: where hosts can change places, trees are packed for the roots of one, and those of the others are the
// same with other numbers, at the same rate. Where they cannot, every root has its own.
func TestStandIn(t *testing.T) {
	whole, _ := topo.Machine("dgxa100-x2")
	uneven := *whole
	uneven.Links = append([]topo.Link(nil), whole.Links...)
	uneven.Links[0].GBytesPerSecond /= 2
	for name, c := range map[string]struct {
		g    *topo.Graph
		sets int
	}{
		"ports": {whole, 8}, "uneven": {&uneven, 16}, "partial mesh": {onRails("part8", meshes()["part8"], 2, 4), 8},
	} {
		p := plannerFor(t, c.g, Machine{Device: true}, Options{Algorithm: "packing:all"})
		for root := range c.g.Ranks {
			got := choose(t, p, plan.Broadcast, root, 256<<20).Chosen
			bound, err := p.Site.Certify(plan.Broadcast, root)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Site.Verify(got); err != nil || got.Plan.Root != root {
				t.Errorf("%s: a plan of root %d for root %d, %v", name, got.Plan.Root, root, err)
			}
			if rate := p.Prices.FullRate(got); rate < 0.99*bound.Rate {
				t.Errorf("%s: from root %d %v of %v GB/s", name, root, rate, bound.Rate)
			}
		}
		sets := 0
		for key := range p.finder.found.byKey {
			if strings.HasPrefix(key, "packing from ") && !strings.HasSuffix(key, "low") {
				sets++
			}
		}
		if sets != c.sets {
			t.Errorf("%s: trees were packed from %d roots, want %d", name, sets, c.sets)
		}
	}
}
