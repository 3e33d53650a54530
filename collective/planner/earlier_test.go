package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// sizesTried are message sizes, in an order in which ranges of taken over and of new choices meet.
var sizesTried = []int64{64 << 10, 8, 1 << 20, 4 << 10, 100, 16 << 20, 0, 1 << 10}

// What a Planner takes over it need not price; the other sizes get the choice that they would have without it. Whoever
// follows it has the same choices, in whatever order it makes them.
func TestTakeOver(t *testing.T) {
	for _, kind := range []plan.Kind{plan.AllReduce, plan.Broadcast, plan.AllGather, plan.Barrier, plan.AllToAll} {
		old := plannerOf(t, topo.UniformGraph(8), Options{})
		for _, bytes := range []int64{4 << 10, 1 << 20} {
			choose(t, old, kind, 0, bytes)
		}
		next, alone := plannerOf(t, topo.UniformGraph(7), Options{}), plannerOf(t, topo.UniformGraph(7), Options{})
		if err := next.TakeOver(old.Choices()); err != nil {
			t.Fatal(err)
		}
		other := plannerOf(t, topo.UniformGraph(7), Options{})
		if err := other.Follow(decided(t, next)); err != nil {
			t.Fatal(err)
		}
		set, err := next.finder.candidates(kind, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, bytes := range sizesTried {
			want := choose(t, alone, kind, 0, bytes)
			for _, r := range old.tables[kind].ranges {
				rule := strings.HasPrefix(want.By, "rule")
				if c := set.named(r.Algorithm); !rule && r.From <= bytes && bytes < r.Below && c != nil {
					priced := len(next.tables[kind].priced)
					want = choose(t, old, kind, 0, bytes)
					if got := choose(t, next, kind, 0, bytes); len(next.tables[kind].priced) > priced ||
						got.By != "price for the 8 ranks of an earlier epoch" {
						t.Errorf("%v of %d bytes was priced: %s", kind, bytes, got.By)
					}
				}
			}
			got := choose(t, next, kind, 0, bytes)
			if got.Chosen.Name() != want.Chosen.Name() || got.Chosen.Chunks != want.Chosen.Chunks {
				t.Errorf("%v of %d bytes: %s in %v, want %s in %v", kind, bytes, got.Chosen.Name(), got.Chosen.Chunks,
					want.Chosen.Name(), want.Chosen.Chunks)
			}
		}
		for _, bytes := range slices.Backward(sizesTried) {
			a, b := choose(t, next, kind, 0, bytes), choose(t, other, kind, 0, bytes)
			if a.Chosen.Plan.Digest() != b.Chosen.Plan.Digest() || a.Chosen.Chunks != b.Chosen.Chunks {
				t.Errorf("%v of %d bytes: %s, and %s on a rank that follows", kind, bytes, a.Chosen.Name(), b.Chosen.Name())
			}
		}
		before := int64(0)
		for _, r := range next.tables[kind].ranges {
			if r.From < before || r.Below <= r.From {
				t.Errorf("%v: sizes from %d below %d, after %d", kind, r.From, r.Below, before)
			}
			before = r.Below
		}
	}
}

// Choices of many more ranks are not taken over, also step by step; nor is an algorithm that has no plan here.
func TestTakeOverFromOthers(t *testing.T) {
	old := plannerOf(t, topo.UniformGraph(8), Options{})
	choose(t, old, plan.AllReduce, 0, 4<<10)
	for n, want := range map[int]bool{9: false, 8: true, 7: true, 6: true, 5: false} {
		p := plannerOf(t, topo.UniformGraph(n), Options{})
		if err := p.TakeOver(old.Choices()); err != nil {
			t.Fatal(err)
		}
		c := choose(t, p, plan.AllReduce, 0, 4<<10)
		if taken := strings.Contains(c.By, "earlier"); taken != want {
			t.Errorf("%d ranks: %s", n, c.By)
		}
		if e := p.Choices(); want && e.Ranks != 8 || !want && e.Ranks != n {
			t.Errorf("%d ranks: choices of %d ranks", n, e.Ranks)
		}
	}
	spoiled, p := old.Choices(), plannerOf(t, topo.UniformGraph(8), Options{})
	spoiled.Tables[0].Choices[0].Algorithm = "square"
	if err := p.TakeOver(spoiled); err != nil {
		t.Fatal(err)
	}
	if c := choose(t, p, plan.AllReduce, 0, 4<<10); strings.Contains(c.By, "earlier") {
		t.Errorf("algorithm square is %s by %s", c.Chosen.Name(), c.By)
	}
}

// Choices that cannot be are refused, with the reason.
func TestTakeOverRefuses(t *testing.T) {
	for want, spoil := range map[string]func(e *Earlier){
		"kind 99":                   func(e *Earlier) { e.Tables[0].Kind = 99 },
		"kind -1":                   func(e *Earlier) { e.Tables[0].Kind = -1 },
		"sizes from -1":             func(e *Earlier) { e.Tables[0].Choices[0].From = -1 },
		"sizes from 5 and below 5":  func(e *Earlier) { c := &e.Tables[0].Choices[0]; c.From, c.Below = 5, 5 },
		"sizes from 0 and below 10": func(e *Earlier) { e.Tables[0].Choices[1].From = 0; e.Tables[0].Choices[1].Below = 10 },
		"chunks of 100 bytes":       func(e *Earlier) { e.Tables[0].Choices[1].Chunks.Max = 100 },
	} {
		old := plannerOf(t, topo.UniformGraph(8), Options{})
		choose(t, old, plan.AllReduce, 0, 8)
		choose(t, old, plan.AllReduce, 0, 4<<20)
		e := old.Choices()
		if len(e.Tables[0].Choices) < 2 {
			t.Fatalf("%v", e)
		}
		spoil(e)
		p := plannerOf(t, topo.UniformGraph(8), Options{})
		if err := p.TakeOver(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if err := p.Follow(&Decision{Earlier: e.Tables, Ranks: e.Ranks}); err == nil {
			t.Errorf("a decision with %q is followed", want)
		}
	}
}
