package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

var everyKind = []Kind{AllReduce, Reduce, Broadcast, Barrier, AllGather, ReduceScatter, Gather, Scatter, AllToAll}

// directPlans returns all plans that Flat, Star and Direct make over n ranks, for a
// few roots.
func directPlans(t *testing.T, n int) []*Plan {
	t.Helper()
	var plans []*Plan
	for _, kind := range []Kind{AllReduce, Barrier} {
		p, err := Leaders(kind, Alone(n), Everybody)
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, p)
	}
	for _, kind := range []Kind{AllReduce, Barrier, Reduce} {
		for _, root := range []int{0, n - 1} {
			p, err := Star(kind, n, root)
			if err != nil {
				t.Fatal(err)
			}
			plans = append(plans, p)
		}
	}
	for _, kind := range everyKind {
		for _, form := range []Form{Single, Split} {
			for _, root := range []int{0, n / 2, n - 1} {
				p, err := Direct(kind, n, root, form)
				if err != nil {
					t.Fatal(err)
				}
				plans = append(plans, p)
				if !kind.HasRoot() {
					break
				}
			}
		}
	}
	return plans
}

// Every flat and direct plan is right, in place and not, with one slot, with two, and with more; and gives the results
// of its Kind when it runs on numbers.
func TestDirectIsVerified(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16} {
		for _, p := range directPlans(t, n) {
			for _, slots := range []int{1, 2, 5} {
				if err := Verify(p, slots); err != nil {
					t.Fatalf("%d slots: %v\n%v", slots, err, p)
				}
			}
			for _, inPlace := range []bool{false, true} {
				if err := checkNumbers(p, inPlace); err != nil {
					t.Fatalf("%s, %v over %d ranks, in place %v: %v\n%v", p.Name, p.Kind, n, inPlace, err, p)
				}
			}
		}
	}
}

// A flat AllReduce gives all ranks the same bits, those of the sum in the order
// of the ranks, although the order in which floats are added matters.
func TestFlatGivesAllRanksTheSameBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	different := false
	for _, n := range []int{2, 3, 4, 5, 8, 9, 13, 16} {
		p, err := Leaders(AllReduce, Alone(n), Everybody)
		if err != nil {
			t.Fatal(err)
		}
		for _, inPlace := range []bool{false, true} {
			r := newNumbers(p, inPlace)
			want, back := float32(0), float32(0)
			for v := range n {
				r.in[v][0] = float32(math.Ldexp(rng.Float64()-0.5, rng.IntN(20)))
			}
			for v := range n {
				want += r.in[v][0]
				back += r.in[n-1-v][0]
			}
			different = different || want != back
			if err := r.run(); err != nil {
				t.Fatal(err)
			}
			for v := range n {
				if got := r.out[v][0]; math.Float32bits(got) != math.Float32bits(want) {
					t.Errorf("%d ranks, in place %v: rank %d has %v, want %v", n, inPlace, v, got, want)
				}
			}
		}
	}
	if !different {
		t.Error("the order of the sums never mattered: the test has lost its subject")
	}
}

// The reads of a direct AllReduce are shared evenly among its ranks: n-1 inputs of its own slice, and the results of
// the n-1 others.
func TestDirectSharesTheWork(t *testing.T) {
	for _, form := range []Form{Single, Split} {
		const n = 5
		p, err := Direct(AllReduce, n, -1, form)
		if err != nil {
			t.Fatal(err)
		}
		var reduced, received [n]int
		for _, l := range p.Lanes {
			for _, track := range l.Tracks {
				for i, s := range track.Steps {
					switch {
					case s.Op == RecvReduce:
						reduced[track.Rank]++
					case s.Op == Recv:
						received[track.Rank]++
					case s.Op == Send && s.Src == Out && i+1 < len(track.Steps) && !p.Kind.SendsAgain(s, track.Steps[i+1]):
						t.Errorf("rank %d: %q and %q are not one write", track.Rank, s, track.Steps[i+1])
					}
				}
			}
		}
		for v := range n {
			if reduced[v] != n-1 || received[v] != n-1 {
				t.Errorf("rank %d reduces %d times and receives %d results, want %d of each", v, reduced[v], received[v], n-1)
			}
		}
	}
}

func TestDirectRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		make func() (*Plan, error)
		want string
	}{
		{"no kind", func() (*Plan, error) { return Direct(0, 2, -1, Single) }, "Kind(0)"},
		{"no ranks", func() (*Plan, error) { return Direct(AllReduce, 0, -1, Single) }, "0 ranks, want 1.."},
		{"root", func() (*Plan, error) { return Direct(Gather, 3, 3, Single) }, "root 3 is not a rank of 0..2"},
		{"too many lanes", func() (*Plan, error) { return Direct(AllGather, MaxLanes+1, -1, Single) },
			"lanes for each of 4097 parts"},
		{"star of parts", func() (*Plan, error) { return Star(AllGather, 2, 0) },
			"plan star: it has no allgather"},
		{"star without ranks", func() (*Plan, error) { return Star(Barrier, 0, 0) }, "0 ranks, want 1.."},
		{"star round nobody", func() (*Plan, error) { return Star(Reduce, 2, 2) }, "root 2 is not a rank of 0..1"},
		{"alltoall over trees", func() (*Plan, error) {
			return FromTrees(AllToAll, []topo.Tree{topo.Star(2, 0)}, nil, Single)
		}, "it has no alltoall"},
		{"gather over rings", func() (*Plan, error) { return FromRings(Gather, [][]int{{0, 1}}, nil, 0) },
			"plan ring: it has no gather"},
	} {
		if _, err := c.make(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
	if err := Verify(&Plan{Name: "big", Kind: AllToAll, Size: 513, Root: -1,
		Lanes: []Lane{{Weight: 1, Tracks: []Track{{0, []Step{copyStep()}}}}}}, 2); err == nil ||
		!strings.Contains(err.Error(), "verify takes at most") {
		t.Errorf("an alltoall of 513 ranks: %v", err)
	}
}

// Parts and roles as the kinds promise them, step by step.
func TestParts(t *testing.T) {
	for _, c := range []struct {
		kind    Kind
		s       Step
		in, out int
	}{
		{AllReduce, sendStep(In, 3), 0, 0},
		{AllGather, copyStep(), 0, 2},
		{Gather, recvStep(Out, 2), 0, 2},
		{ReduceScatter, sendStep(In, 2), 2, 0},
		{Scatter, sendStep(In, 2), 2, 0},
		{AllToAll, sendStep(In, 3), 3, 1},
		{AllToAll, recvStep(Out, 3), 1, 3},
		{AllToAll, copyStep(), 1, 1},
	} {
		in, out := c.kind.Parts(2, 1, c.s)
		if fmt.Sprint(in, out) != fmt.Sprint(c.in, c.out) {
			t.Errorf("%v, %q: parts %d and %d, want %d and %d", c.kind, c.s, in, out, c.in, c.out)
		}
	}
}
