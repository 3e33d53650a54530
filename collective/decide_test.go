package collective

import (
	"math"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/rank/strict"
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

// TestDecisionOfHosts: the trees over hosts that rank 0 found are taken over as
// they are, and what it cannot have found is refused.
func TestDecisionOfHosts(t *testing.T) {
	g := meshNet(2)
	first := plannerOf(t, g)
	cfg := defaults()
	cfg.cores = 2
	d := first.decision()
	other, err := newPlanner(g, 3, &cfg, &d)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := first.digest(), other.digest(); a != b {
		t.Errorf("rank 0 has %s, rank 3 %s", a, b)
	}
	a, b := first.layout(), other.layout()
	if layoutDigest(&a) != layoutDigest(&b) {
		t.Error("the ranks have different links")
	}
	for _, kind := range kinds {
		if err := other.choosing(kind); err != nil {
			t.Fatal(err)
		}
		if err := first.choosing(kind); err != nil {
			t.Fatal(err)
		}
		if x, y := choicesText(first.choices[kind]), choicesText(other.choices[kind]); x != y {
			t.Errorf("%v: rank 0 chooses %s, rank 3 %s", kind, x, y)
		}
	}
	for name, c := range map[string]struct {
		spoil func(d *decision)
		want  string
	}{
		"no such shape":       {func(d *decision) { d.Sets[0].Shape = "round" }, `"round"`},
		"a shape without":     {func(d *decision) { d.Sets[0].Shape = "flat" }, `"flat"`},
		"no such use":         {func(d *decision) { d.Sets[0].Of = 3 }, "kind 3"},
		"a root too many":     {func(d *decision) { d.Sets[0].Root = 1 }, "root 1 for 4 hosts"},
		"no such host":        {func(d *decision) { d.Sets[2].Root = 4 }, "root 4 for 4 hosts"},
		"another root":        {func(d *decision) { d.Sets[3].Root, d.Sets[2].Root = d.Sets[2].Root, d.Sets[3].Root }, "have root"},
		"twice":               {func(d *decision) { d.Sets[1] = d.Sets[0] }, "rank 0 decided on trees of kind"},
		"half a tree":         {func(d *decision) { d.Sets[0].Parents = d.Sets[0].Parents[1:] }, "7 parents"},
		"no tree":             {func(d *decision) { d.Sets[0].Parents = nil }, "0 parents"},
		"a circle":            {func(d *decision) { copy(d.Sets[0].Parents, []int{-1, 2, 1, 0}) }, "trees over hosts"},
		"no root":             {func(d *decision) { copy(d.Sets[0].Parents, []int{1, 2, 3, 0}) }, "trees over hosts"},
		"weights too few":     {func(d *decision) { d.Sets[1].Weights = d.Sets[1].Weights[1:] }, "weights"},
		"a weight below zero": {func(d *decision) { d.Sets[1].Weights[0] = -1 }, "weight"},
		"no trees at all":     {func(d *decision) { d.Sets = nil }, "no trees"},
		"a part without":      {func(d *decision) { last := &d.Sets[len(d.Sets)-1]; last.Parents, last.Weights = last.Parents[:4], nil }, "some host's parts"},
		"odd chunks":          {func(d *decision) { d.AllReduce[0].Chunk = 100 }, "chunks of 100"},
		"a shape of one host": {func(d *decision) { d.AllReduce[0].Shape = "tree" }, `"tree"`},
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := plannerOf(t, g).decision()
			c.spoil(&spoilt)
			if _, err := newPlanner(g, 1, &cfg, &spoilt); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// FuzzDecision: whatever rank 0 sends, the others take it over or refuse it.
func FuzzDecision(f *testing.F) {
	for _, g := range []*topo.Graph{meshNet(1), unevenNet(1), topo.UniformGraph(3)} {
		d := plannerOf(f, g).decision()
		data, err := msgpack.Marshal(&d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	graphs := []*topo.Graph{meshNet(1), unevenNet(1), topo.UniformGraph(3)}
	cfg := defaults()
	cfg.cores = 2
	f.Fuzz(func(t *testing.T, data []byte) {
		var d decision
		if strict.Unmarshal(data, &d) != nil {
			return
		}
		for _, g := range graphs {
			if p, err := newPlanner(g, 1, &cfg, &d); err == nil && p.digest() == "" {
				t.Error("a planner without a digest")
			}
		}
	})
}
