package waits

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// waitFor is a rank that waits in a call for others.
func waitFor(rank int, in string, ranks ...int) Seen {
	return Seen{Rank: rank, Waits: []Waiting{{In: in, For: ranks, Since: int64(100 + rank)}}}
}

// From all ranks of a job follow the call in which most wait, and the ranks that they wait for in the end.
func TestJudge(t *testing.T) {
	absent := func(rank int) Seen { return Seen{Rank: rank, Is: "its process 7 sleeps"} }
	down := func(rank int) Seen { return Seen{Rank: rank, Down: true, Is: "is stopped by SIGSTOP (process 7)"} }
	for _, c := range []struct {
		name  string
		ranks []Seen
		want  Verdict
	}{
		{"none waits", []Seen{absent(0), absent(1)}, Verdict{}},
		{"one is in no call",
			[]Seen{waitFor(0, "AllReduce #5", 1), waitFor(1, "AllReduce #5", 2), absent(2)},
			Verdict{Waiting: 2, Call: "AllReduce #5", Together: []int{0, 1}, Since: 100, AtFault: []int{2},
				Is: []string{"is in no call; its process 7 sleeps"}}},
		{"one that no other needs is not at fault",
			[]Seen{waitFor(0, "Recv", 1), absent(1), absent(2), down(3)},
			Verdict{Waiting: 1, Call: "Recv", Together: []int{0}, Since: 100, AtFault: []int{1},
				Is: []string{"is in no call; its process 7 sleeps"}}},
		{"a stopped rank comes before one in no call, also if it had waited",
			[]Seen{waitFor(0, "Recv", 1, 2, 3), absent(1), down(2), {Rank: 3, Down: true, Is: "has ended",
				Waits: []Waiting{{In: "Recv", For: []int{1}, Since: 1}}}},
			Verdict{Waiting: 1, Call: "Recv", Together: []int{0}, Since: 100, AtFault: []int{2, 3},
				Is: []string{"is stopped by SIGSTOP (process 7)", "has ended"}}},
		{"a circle", []Seen{waitFor(0, "Recv", 1), waitFor(1, "Recv", 0), absent(2)},
			Verdict{Waiting: 2, Call: "Recv", Together: []int{0, 1}, Since: 100,
				Circle: "rank 0 waits in Recv for rank 1, rank 1 in Recv for rank 0: a circle"}},
		{"a wait that was given up is over",
			[]Seen{waitFor(0, "Recv", 1),
				{Rank: 1, Waits: []Waiting{{In: "Recv", For: []int{0}, GaveUp: 5}}, Is: "computes"}},
			Verdict{Waiting: 1, Call: "Recv", Together: []int{0}, Since: 100, AtFault: []int{1},
				Is: []string{"is in Recv; computes"}}},
		{"a call that moves", []Seen{waitFor(0, "Recv", 1), {Rank: 1, Calls: []string{"Broadcast on world"}, Is: "computes"}},
			Verdict{Waiting: 1, Call: "Recv", Together: []int{0}, Since: 100, AtFault: []int{1},
				Is: []string{"is in Broadcast on world, which makes progress; computes"}}},
		{"most of them", []Seen{waitFor(0, "A", 3), waitFor(1, "B", 3), waitFor(2, "B", 3), absent(3)},
			Verdict{Waiting: 3, Call: "B", Together: []int{1, 2}, Since: 100, AtFault: []int{3},
				Is: []string{"is in no call; its process 7 sleeps"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Judge(c.ranks)
			got.Circle, _, _ = strings.Cut(got.Circle, " (hint")
			if got.Waiting != c.want.Waiting || got.Call != c.want.Call || !slices.Equal(got.Together, c.want.Together) ||
				got.Since != c.want.Since || !slices.Equal(got.AtFault, c.want.AtFault) || !slices.Equal(got.Is, c.want.Is) ||
				got.Circle != c.want.Circle {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// In random small jobs in which some ranks can never make progress the verdict is a circle. Else it names a rank that
// waits for none, if any rank waits.
func TestJudgeRandomJobs(t *testing.T) {
	circles := 0
	for seed := range uint64(3000) {
		g := randomGraph(rand.New(rand.NewPCG(seed, 7)))
		var ranks []Seen
		for r, to := range g.waitsFor {
			s := Seen{Rank: r}
			if len(to) > 0 {
				s.Waits = []Waiting{{In: "Recv", For: to, Any: g.any[r], Since: 1}}
			}
			ranks = append(ranks, s)
		}
		v := Judge(ranks)
		computes := slices.ContainsFunc(v.AtFault, func(r int) bool { return len(g.waitsFor[r]) == 0 })
		switch dead := g.deadlocked(); {
		case v.Circle != "":
			circles++
			if dead == 0 && g.reached() == 1<<len(g.waitsFor)-1 {
				t.Fatalf("seed %d, %+v: %+v, but all ranks can make progress", seed, g, v)
			}
		case dead != 0:
			t.Fatalf("seed %d, %+v: %+v, but ranks %b cannot make progress", seed, g, v, dead)
		case !computes:
			t.Fatalf("seed %d, %+v: %+v", seed, g, v)
		}
	}
	t.Logf("%d circles", circles)
}

// BenchmarkJudge: of 512 ranks all but one wait in a collective, for all others.
func BenchmarkJudge(b *testing.B) {
	ranks := []Seen{{Rank: 0, Is: "computes"}}
	for r := 1; r < 512; r++ {
		s := waitFor(r, "Barrier #1")
		for to := range 512 {
			if to != r {
				s.Waits[0].For = append(s.Waits[0].For, to)
			}
		}
		ranks = append(ranks, s)
	}
	for b.Loop() {
		if v := Judge(ranks); len(v.AtFault) != 1 || v.AtFault[0] != 0 {
			b.Fatalf("%+v", v)
		}
	}
}
