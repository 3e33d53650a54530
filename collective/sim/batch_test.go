package sim

import (
	"math"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// TestBatches: the steps of a rank that have one level in their lanes are one launch, with a call of the driver for the
// waits if one receives, and one for the signals; a step has the highest level that raises no other.
func TestBatches(t *testing.T) {
	// A chain 0-1-2, whose root is rank 0, and a star with the same root.
	chain := topo.Tree{Root: 0, Parent: []int{-1, 0, 1}}
	star := topo.Tree{Root: 0, Parent: []int{-1, 0, 0}}
	for _, c := range []struct {
		name  string
		kind  plan.Kind
		trees []topo.Tree
		want  []int // by rank: batches
		calls []int // by rank
	}{
		{"chain down", plan.Broadcast, []topo.Tree{chain}, []int{1, 1, 1}, []int{2, 3, 3}},
		{"chain up and down", plan.AllReduce, []topo.Tree{chain}, []int{1, 2, 2}, []int{3, 6, 5}},
		{"star up and down", plan.AllReduce, []topo.Tree{star}, []int{1, 2, 2}, []int{3, 5, 5}},
		// In the chain rank 2 sends at level 1 and receives at 5, rank 1 has 2 and 4; in the star both have 1 and 3.
		{"both", plan.AllReduce, []topo.Tree{chain, star}, []int{2, 4, 3}, []int{6, 11, 8}},
		{"twice", plan.AllReduce, []topo.Tree{chain, chain}, []int{1, 2, 2}, []int{3, 6, 5}},
	} {
		p, err := plan.FromTrees(c.kind, c.trees, nil, plan.Split)
		if err != nil {
			t.Fatal(err)
		}
		g := topo.UniformGraph(3)
		m := Device(4, 1<<20)
		pr, err := newProgram(p, 1<<20, newNetwork(g, topo.NewWays(g), &m))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]int, 3)
		for _, b := range pr.batches {
			got[pr.tracks[b[0].track].rank]++
		}
		for r := range got {
			if got[r] != c.want[r] {
				t.Errorf("%s: %d batches by rank, want %d", c.name, got, c.want)
				break
			}
		}
		for i := range pr.tracks {
			if tr := &pr.tracks[i]; tr.enqueueUs != float64(c.calls[tr.rank])*m.CallUs {
				t.Errorf("%s: the %d batches of rank %d take its host %v us", c.name, got[tr.rank], tr.rank, tr.enqueueUs)
			}
		}
	}
}

// TestLevels: in plans of random trees every step has a level above those of the steps that it waits for, and a leaf
// sends one level before its parent adds.
func TestLevels(t *testing.T) {
	for root := range 8 {
		tree := topo.Tree{Root: 0, Parent: []int{-1, 0, 1, 2, 0, 4, 0, 3}}.Reroot(root)
		for _, kind := range []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.AllGather} {
			for _, form := range []plan.Form{plan.Single, plan.Split} {
				p, err := plan.FromTrees(kind, []topo.Tree{tree}, nil, form)
				if err != nil {
					t.Fatal(err)
				}
				m := Device(4, 1<<20)
				pr, err := newProgram(p, 8<<20, newNetwork(topo.UniformGraph(8), topo.NewWays(topo.UniformGraph(8)), &m))
				if err != nil {
					t.Fatal(err)
				}
				sent := make(map[int32]int) // by FIFO: the level of its one chunk
				for i := range pr.tracks {
					before := 0
					for _, st := range pr.tracks[i].steps {
						if !st.joins && st.level <= before || st.joins && st.level != before {
							t.Errorf("%v: a step of level %d after one of %d", kind, st.level, before)
						}
						if before = st.level; st.out >= 0 {
							sent[st.out] = st.level
						}
					}
				}
				slack := 0
				for i := range pr.tracks {
					for _, st := range pr.tracks[i].steps {
						if st.in >= 0 {
							slack = max(slack, st.level-sent[st.in])
							if st.level <= sent[st.in] {
								t.Errorf("%v: level %d receives what level %d sends", kind, st.level, sent[st.in])
							}
						}
					}
				}
				if form == plan.Split && kind != plan.AllGather && slack != 1 {
					t.Errorf("%v from root %d: a chunk waits %d levels for its reader", kind, root, slack)
				}
			}
		}
	}
}

// TestBatchWaits: a batch begins when all of its steps can, so that a lane over a slow link slows down the other.
func TestBatchWaits(t *testing.T) {
	g := &topo.Graph{Ranks: 3, Links: []topo.Link{{A: 0, B: 1, GBytesPerSecond: 100}, {A: 1, B: 2, GBytesPerSecond: 100},
		{A: 0, B: 2, GBytesPerSecond: 1}}}
	fast, slow := topo.Tree{Root: 0, Parent: []int{-1, 0, 1}}, topo.Tree{Root: 0, Parent: []int{-1, 2, 0}}
	const bytes = 8 << 20
	us := func(trees ...topo.Tree) float64 {
		p, err := plan.FromTrees(plan.Broadcast, trees, nil, plan.Split)
		if err != nil {
			t.Fatal(err)
		}
		x := NewPricer(g, topo.NewWays(g), Device(4, 256<<10))
		v, err := x.Us(p, bytes*int64(len(trees)), 1, plan.Chunks{}, Limits{Steps: math.Inf(1), Chunks: 1})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if alone, both, floor := us(fast), us(fast, slow), us(slow); alone > floor/10 || both < floor || both > 1.05*floor {
		t.Errorf("%v us over fast links, %v over a slow one, %v over both", alone, floor, both)
	}
}
