package waits

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// graph holds the ranks that each rank waits for, none if it computes, and whether any one of them is enough.
type graph struct {
	waitsFor [][]int
	any      []bool
}

func randomGraph(rng *rand.Rand) graph {
	n := 2 + rng.IntN(4)
	g := graph{make([][]int, n), make([]bool, n)}
	for r := range n {
		for _, to := range rng.Perm(n)[:rng.IntN(n)] {
			if to != r {
				g.waitsFor[r] = append(g.waitsFor[r], to)
			}
		}
		g.any[r] = rng.IntN(2) == 0
	}
	if len(g.waitsFor[0]) == 0 {
		g.waitsFor[0] = []int{1}
	}
	return g
}

// reached returns the ranks that rank 0 waits for, directly or indirectly, and rank 0, as bits.
func (g graph) reached() (set int) {
	for next := 1; set != next; {
		set = next
		for r, waitsFor := range g.waitsFor {
			for _, to := range waitsFor {
				if set>>r&1 == 1 {
					next |= 1 << to
				}
			}
		}
	}
	return set
}

// deadlocked returns all ranks that can never make progress, as bits: it looks at every set of ranks, and takes those
// in which each rank waits for another of the set or, where any one is enough, for no rank outside it.
func (g graph) deadlocked() (all int) {
	reached := g.reached()
	for set := range 1 << len(g.waitsFor) {
		bad := set&^reached != 0
		for r, waitsFor := range g.waitsFor {
			in := 0
			for _, to := range waitsFor {
				in += set >> to & 1
			}
			held := in > 0
			if g.any[r] {
				held = in == len(waitsFor) && in > 0
			}
			bad = bad || set>>r&1 == 1 && !held
		}
		if !bad {
			all |= set
		}
	}
	return all
}

// TestCirclesOfAny: in random small jobs a circle is reported if, and only if, some ranks can never make progress, and
// it consists of such ranks; otherwise the report names a rank that computes.
func TestCirclesOfAny(t *testing.T) {
	circles := 0
	for seed := range uint64(3000) {
		g := randomGraph(rand.New(rand.NewPCG(seed, 3)))
		jobs := NewLocal(len(g.waitsFor)).Jobs
		var first *Wait
		for r := len(g.waitsFor) - 1; r >= 0; r-- {
			var blockers []Blocker
			for _, to := range g.waitsFor[r] {
				blockers = append(blockers, Blocker{Rank: to, What: "to send", Any: g.any[r]})
			}
			if first = jobs[r].NewWait("", nil); len(blockers) > 0 {
				first.Publish("Recv", time.Now(), blockers)
			}
		}
		cause, ring := first.look(t.Context())
		dead := g.deadlocked()
		outside := slices.ContainsFunc(ring, func(h hop) bool { return dead>>h.from&1 == 0 || dead>>h.on&1 == 0 })
		circle := cause.Rank < 0 && strings.HasSuffix(cause.Text, ": a circle") && ring != nil
		switch {
		case circle != (dead != 0), outside:
			t.Fatalf("seed %d, %+v: %+v; ranks %b cannot get on", seed, g, cause, dead)
		case !circle && (cause.Rank < 0 || len(g.waitsFor[cause.Rank]) > 0):
			t.Fatalf("seed %d, %+v: %+v, want a rank that computes", seed, g, cause)
		}
		if circle {
			circles++
		}
	}
	t.Logf("%d circles", circles)
}

// TestFarm: a rank that takes the answers of any other waits for the one that computes, regardless of the ranks that
// wait for it; if the one that computes waits for it as well, this is a circle.
func TestFarm(t *testing.T) {
	jobs := NewLocal(4).Jobs
	await(jobs[1], "", "Recv", 0)
	await(jobs[3], "", "Recv", 0)
	farmer := jobs[0].NewWait("", nil)
	farmer.Publish("Probe", time.Now(), []Blocker{{1, "to send", true}, {2, "to send", true}, {3, "to send", true}})
	want := "for rank 2 to send; rank 2 is in no call of treerun"
	if c := farmer.Why(t.Context()); c.Rank != 2 || c.Text != want {
		t.Errorf("%+v, want %q", c, want)
	}
	want = "rank 0 waits in Probe for rank 2, which is in no call of treerun"
	if c := await(jobs[1], "", "Recv", 0).Why(t.Context()); c.Rank != 2 || !strings.HasSuffix(c.Text, want) {
		t.Errorf("%+v, want %q", c, want)
	}
	await(jobs[2], "", "Recv", 0)
	if c := farmer.Why(t.Context()); c.Rank != -1 || !strings.HasSuffix(c.Text, ": a circle") {
		t.Errorf("%+v, want a circle", c)
	}
}

// TestRingThroughSeveralCalls: where one rank waits in another call, the circle is through that call, and not the
// shorter one of ranks that only wait for it.
func TestRingThroughSeveralCalls(t *testing.T) {
	const in = "AllReduce #21 (sum of 262144 float32)"
	wait := func(call string, on ...int) []Waiting { return []Waiting{{In: call, For: on}} }
	v := Judge([]Seen{{Rank: 0, Waits: wait(in, 1, 2, 3)}, {Rank: 1, Waits: wait(in, 0, 2, 3)},
		{Rank: 2, Waits: wait("Recv (1 float32, tag 7)", 1)}, {Rank: 3, Waits: wait(in, 0, 1, 2)}})
	want := "rank 1 waits in " + in + " for rank 2, rank 2 in Recv (1 float32, tag 7) for rank 1: a circle"
	if !strings.HasPrefix(v.Circle, want) {
		t.Errorf("%q, want %q", v.Circle, want)
	}
	v = Judge([]Seen{{Rank: 0, Waits: wait(in, 1)}, {Rank: 1, Waits: wait(in, 0)}})
	want = "a circle; all are in one call (hint: is the network between them cut?)"
	if !strings.HasSuffix(v.Circle, want) {
		t.Errorf("%q, want %q", v.Circle, want)
	}
}
