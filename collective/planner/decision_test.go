package planner

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// decided returns the decision of a Planner, as another rank reads it.
func decided(t testing.TB, p *Planner) *Decision {
	t.Helper()
	d, err := p.Decide([]plan.Kind{plan.AllReduce, plan.Barrier})
	if err != nil {
		t.Fatal(err)
	}
	data, err := msgpack.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var read Decision
	if err := strict.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	return &read
}

// TestFollow: a Planner that follows a decision has the links and plans of the one that decided, for the kinds that
// were decided on and for others.
func TestFollow(t *testing.T) {
	dgx, _ := topo.Machine("dgx1v")
	for name, g := range map[string]*topo.Graph{
		"dgx1v": dgx, "mesh": meshedHosts(2), "uniform": topo.UniformGraph(5), "sockets": sockets(9),
		"one": topo.UniformGraph(1),
	} {
		first, other := plannerOf(t, g, Options{}), plannerOf(t, g, Options{})
		if err := other.Follow(decided(t, first)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before := len(other.finder.found.byKey)
		a, err := first.allPairs()
		b, failed := other.allPairs()
		if err != nil || failed != nil || !slices.Equal(a, b) {
			t.Errorf("%s: %d pairs, and %d where it is followed: %v, %v", name, len(a), len(b), err, failed)
		}
		if len(other.finder.found.byKey) != before {
			t.Errorf("%s: who follows has searched for trees", name)
		}
		for _, kind := range everyKind() {
			for _, bytes := range []int64{8, 64 << 10, 16 << 20} {
				x := choose(t, first, kind, g.Ranks-1, bytes).Chosen
				y := choose(t, other, kind, g.Ranks-1, bytes).Chosen
				if x.Name() != y.Name() || x.Plan.Digest() != y.Plan.Digest() || x.Chunks != y.Chunks {
					t.Errorf("%s: %v of %d bytes is %s, and %s where it is followed", name, kind,
						bytes, x.Name(), y.Name())
				}
			}
		}
	}
}

// TestFollowRefuses: impossible decisions are refused, with the reason.
func TestFollowRefuses(t *testing.T) {
	g := meshedHosts(2)
	first := plannerOf(t, g, Options{})
	for want, spoil := range map[string]func(d *Decision){
		`no plan by algorithm square`:     func(d *Decision) { d.Tables[0].Choices[0].Algorithm = "square" },
		`no plan by algorithm direct:all`: func(d *Decision) { d.Tables[0].Choices[0].Algorithm = "direct:all" },
		"sizes below 9223372036854775807 aft": func(d *Decision) {
			c := &d.Tables[0].Choices
			*c = append(*c,
				(*c)[len(*c)-1])
		},
		"sizes end at 100":            func(d *Decision) { d.Tables[1].Choices[0].Below = 100 },
		"0 choices":                   func(d *Decision) { d.Tables[1].Choices = nil },
		"choices for kind 99":         func(d *Decision) { d.Tables[1].Kind = 99 },
		"choices for kind -1":         func(d *Decision) { d.Tables[1].Kind = -1 },
		"chunks of 100 bytes":         func(d *Decision) { d.Tables[0].Choices[0].Chunks.Max = 100 },
		"chunks of -64 bytes":         func(d *Decision) { d.Tables[0].Choices[0].Chunks.Min = -64 },
		"sizes below 8 after":         func(d *Decision) { c := &d.Tables[0].Choices[0]; c.Below, c.Bytes = 8, 9 },
		"parents for 3 ranks, want 4": func(d *Decision) { p := &d.TreeSets[0].Trees[1].Parent; *p = (*p)[1:] },
		"0 trees":                     func(d *Decision) { d.TreeSets[0].Trees = nil },
		"1 rates":                     func(d *Decision) { d.TreeSets[0].Rates = []float64{1} },
		"rate NaN":                    func(d *Decision) { d.TreeSets[0].Rates[0] = math.NaN() },
		"rate -1":                     func(d *Decision) { d.TreeSets[0].Rates[0] = -1 },
		"rate +Inf":                   func(d *Decision) { d.TreeSets[0].Rates[0] = math.Inf(1) },
		"parents for 0 ranks":         func(d *Decision) { d.TreeSets[0].Trees[0].Parent = nil },
		"its ancestors form a cycle": func(d *Decision) {
			d.TreeSets[0].Trees[0] = topo.Tree{Parent: []int{-1, 2, 1,
				0}}
		},
		"root 0 of the tree has parent 1": func(d *Decision) {
			d.TreeSets[0].Trees[0] = topo.Tree{Parent: []int{1, 2, 3,
				0}}
		},
	} {
		d := decided(t, first)
		at := slices.IndexFunc(d.TreeSets, func(f TreeSet) bool { return f.Key == "packing between hosts" })
		d.TreeSets[0], d.TreeSets[at] = d.TreeSets[at], d.TreeSets[0]
		spoil(d)
		if err := plannerOf(t, g, Options{}).Follow(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestFollowOtherTrees: trees that are right, but of another graph or number, are refused
// when plans are made of them, or make plans that are right.
func TestFollowOtherTrees(t *testing.T) {
	spoils := []func(f *TreeSet){
		func(f *TreeSet) { f.Trees, f.Rates = f.Trees[:1], f.Rates[:min(len(f.Rates), 1)] },
		func(f *TreeSet) { // no links
			f.Trees, f.Rates = slices.Repeat([]topo.Tree{{Parent: []int{-1}}}, len(f.Trees)), nil
		},
		func(f *TreeSet) { // one rank more
			chain := []int{-1}
			for v := range f.Trees[0].Parent {
				chain = append(chain, v)
			}
			f.Trees, f.Rates = slices.Repeat([]topo.Tree{{Parent: chain}}, len(chain)), nil
		},
		func(f *TreeSet) { f.Trees = slices.Repeat(f.Trees[:1], len(f.Trees)) }, // one root
	}
	dgx, _ := topo.Machine("dgx1v-x2")
	abilene, _ := topo.Machine("abilene")
	for name, g := range map[string]*topo.Graph{"mesh": meshedHosts(2), "sockets": sockets(5), "dgx1v-x2": dgx,
		"abilene": abilene} {
		first := decided(t, plannerOf(t, g, Options{}))
		for i := range first.TreeSets {
			for how, spoil := range spoils {
				if (i+how)%len(spoils) != 0 && !testutil.Thorough() {
					continue
				}
				d := decidedAgain(first)
				spoil(&d.TreeSets[i])
				p := plannerOf(t, g, Options{})
				if err := p.usable(d); err != nil {
					t.Errorf("%s: change %d in %q: %v", name, how, d.TreeSets[i].Key, err)
				}
			}
		}
	}
}

// decidedAgain returns a copy of d.
func decidedAgain(d *Decision) *Decision {
	return &Decision{Tables: d.Tables, TreeSets: slices.Clone(d.TreeSets)}
}

// usable follows a decision and proves the plans that it leads to. A refusal on the way is no error.
func (p *Planner) usable(d *Decision) error {
	if p.Follow(d) != nil {
		return nil
	}
	if _, err := p.allPairs(); err != nil {
		return nil
	}
	for kind := range p.tables {
		for _, bytes := range []int64{8, 64 << 10} {
			if p.tables[kind].ranges == nil {
				continue
			}
			if c, err := p.Choose(plan.Kind(kind), -1, bytes); err == nil {
				if err := p.Site.Verify(c.Chosen); err != nil {
					return fmt.Errorf("%s: %w", c.Chosen.Name(), err)
				}
			}
		}
	}
	return nil
}

// FuzzDecision: the other ranks take over or refuse any decision of rank 0, and plans that follow from it are right.
func FuzzDecision(f *testing.F) {
	graphs := []*topo.Graph{meshedHosts(1), meshedHosts(2), topo.UniformGraph(3), sockets(4)}
	for _, g := range graphs {
		data, err := msgpack.Marshal(decided(f, plannerOf(f, g, Options{})))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var d Decision
		if strict.Unmarshal(data, &d) != nil {
			return
		}
		for _, g := range graphs {
			if err := plannerOf(t, g, Options{}).usable(&d); err != nil {
				t.Error(err)
			}
		}
	})
}
