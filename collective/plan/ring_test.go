package plan

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Every plan from any rings is right, with any number of slots.
func TestFromRingsIsVerified(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		kind := rapid.SampledFrom(allKinds).Draw(t, "kind")
		rings := [][]int{rapid.Permutation(ranks(n)).Draw(t, "ring")}
		weights := []float64{rapid.Float64Range(0.1, 10).Draw(t, "weight")}
		for range rapid.IntRange(0, 2).Draw(t, "more") {
			rings = append(rings, rapid.Permutation(ranks(n)).Draw(t, "another"))
			weights = append(weights, rapid.Float64Range(0.1, 10).Draw(t, "weight"))
		}
		root := rapid.IntRange(0, n-1).Draw(t, "root")
		p, err := FromRings(kind, rings, weights, root)
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(p, rapid.IntRange(1, 9).Draw(t, "slots")); err != nil {
			t.Fatalf("%v\n%v", err, p)
		}
	})
}

// A ring sends 2(n-1)/n of the message over each of its links for an AllReduce,
// half of that for the kinds with parts, all of it but over one link for the
// ones with a root, and nothing anywhere else.
func TestRingTraffic(t *testing.T) {
	const n = 6
	ring := []int{3, 0, 5, 1, 4, 2}
	for _, c := range []struct {
		kind  Kind
		total int // windows sent by all ranks per chunk of every lane
		most  int // by one rank
	}{
		{AllReduce, 2 * (n - 1) * n, 2 * (n - 1)}, // of n lanes with 1/n of the message
		{AllGather, (n - 1) * n, n - 1},
		{ReduceScatter, (n - 1) * n, n - 1},
		{Broadcast, n - 1, 1}, // of one lane with all of it
		{Reduce, n - 1, 1},
	} {
		p, err := FromRings(c.kind, [][]int{ring}, nil, 4)
		if err != nil {
			t.Fatal(err)
		}
		sent := make(map[int]int)
		total := 0
		for _, l := range p.Lanes {
			for _, track := range l.Tracks {
				for _, s := range track.Steps {
					if !s.Op.Sends() {
						continue
					}
					at := strings.Index("305142", fmt.Sprint(track.Rank))
					if next := ring[(at+1)%n]; int(s.To) != next {
						t.Errorf("%v: rank %d sends to %d, the next is %d", c.kind, track.Rank, s.To, next)
					}
					sent[track.Rank]++
					total++
				}
			}
		}
		most := 0
		for _, k := range sent {
			most = max(most, k)
		}
		if total != c.total || most != c.most {
			t.Errorf("%v: %d windows sent, %d by one rank, want %d and %d", c.kind, total, most, c.total, c.most)
		}
	}
}

func TestFromRingsRefuses(t *testing.T) {
	two := [][]int{{1, 0}}
	for _, c := range []struct {
		name    string
		kind    Kind
		rings   [][]int
		weights []float64
		root    int
		want    string
	}{
		{"no kind", 0, two, nil, 0, "Kind(0)"},
		{"from 0 rings", AllReduce, nil, nil, 0, "no rings"},
		{"an empty ring", AllReduce, [][]int{{}}, nil, 0, "0 ranks"},
		{"zero weight", AllGather, two, []float64{0}, 0, "weight 0"},
		{"root", Reduce, two, nil, 2, "root 2 is not a rank of 0..1"},
		{"two sizes", AllReduce, [][]int{{0, 1}, {0, 1, 2}}, nil, 0, "ring 1: 3 ranks, want 2"},
		{"twice", AllReduce, [][]int{{0, 0}}, nil, 0, "rank 0 is given twice"},
		{"unknown", AllReduce, [][]int{{0, 2}}, nil, 0, "rank 2 is unknown"},
		{"too many lanes", AllReduce, [][]int{ranks(MaxLanes + 1)}, nil, 0, "4097 lanes"},
	} {
		_, err := FromRings(c.kind, c.rings, c.weights, c.root)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
		}
	}
}
