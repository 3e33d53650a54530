package collective

import (
	"math"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// TestDecision: what rank 0 decides is taken over as it is, and what it cannot
// have decided is refused.
func TestDecision(t *testing.T) {
	g := topo.UniformGraph(4)
	g.Links[2].GBytesPerSecond *= 3 // trees are worth their while
	cfg := defaults()
	cfg.cores = 2
	first, err := newPlanner(g, 0, &cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := first.decision()
	other, err := newPlanner(g, 3, &cfg, &d)
	if err != nil {
		t.Fatal(err)
	}
	if first.digest() != other.digest() {
		t.Errorf("rank 0 has %s, rank 3 %s", first.digest(), other.digest())
	}
	for name, c := range map[string]struct {
		spoil func(d *decision)
		want  string
	}{
		"a tree too few":    {func(d *decision) { d.Trees = d.Trees[:3] }, "3 trees for 4 ranks"},
		"a circle":          {func(d *decision) { d.Trees[0].Parent = []int{-1, 2, 1, 0} }, "tree 0"},
		"another root":      {func(d *decision) { d.Trees[1] = d.Trees[0] }, "root 0"},
		"no such rank":      {func(d *decision) { d.SmallRoot = 4 }, "root 4 of 4"},
		"no such shape":     {func(d *decision) { d.AllReduce[0].Shape = "square" }, `"square"`},
		"sizes that fall":   {func(d *decision) { d.AllReduce = append(d.AllReduce, d.AllReduce[0]) }, "sizes below"},
		"an end":            {func(d *decision) { d.Barrier = []decidedChoice{{Below: 100, Shape: "flat"}} }, "end at 100"},
		"nothing":           {func(d *decision) { d.Barrier = nil }, "end at 0"},
		"links not offered": {func(d *decision) { d.Barrier = []decidedChoice{{Below: math.MaxInt, Shape: "tree"}} }, "links that are not there"},
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := first.decision()
			c.spoil(&spoilt)
			graph := g
			if name == "links not offered" {
				graph = topo.UniformGraph(4)
			}
			if _, err := newPlanner(graph, 1, &cfg, &spoilt); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
