package topo

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Between two members there is the same link as before, and they are in the same ports, except ports that now have no
// member or all of them.
func TestAmong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "ranks")
		g := UniformGraph(n)
		for r := range n {
			g.Hosts = append(g.Hosts, r/2)
		}
		for i := range g.Links {
			g.Links[i].GBytesPerSecond = float64(i + 1)
		}
		g.Ports = []Port{{Name: "p", Ranks: []int{0, n / 2}[:1+min(1, n/2)], GBytesPerSecond: 3}}
		members := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for r := range n {
				if !yield(r) {
					return
				}
			}
		})).Draw(t, "order")[:rapid.IntRange(2, n).Draw(t, "members")]
		sub := g.Among(members)
		if err := sub.Validate(); err != nil {
			t.Fatal(err)
		}
		rate, before := sub.Rates(), g.Rates()
		for i, r := range members {
			if sub.Hosts[i] != g.Hosts[r] {
				t.Errorf("member %d is on host %d, rank %d on %d", i, sub.Hosts[i], r, g.Hosts[r])
			}
			for j, q := range members {
				if i != j && rate.At(i, j) != before.At(r, q) {
					t.Errorf("members %d, %d: %v GB/s; ranks %d, %d: %v", i, j, rate.At(i, j), r, q, before.At(r, q))
				}
			}
			in := len(sub.Ports) > 0 && slices.Contains(sub.Ports[0].Ranks, i)
			if len(sub.Ports) > 0 && in != slices.Contains(g.Ports[0].Ranks, r) {
				t.Errorf("member %d, rank %d: in the port %v", i, r, in)
			}
		}
	})
}

// The wire of two hosts is there for those of their ranks that are members.
func TestAmongWithoutTheEnds(t *testing.T) {
	g := &Graph{Ranks: 6, Hosts: []int{0, 0, 1, 1, 2, 2}, Links: []Link{
		{A: 0, B: 1, GBytesPerSecond: 9}, {A: 2, B: 3, GBytesPerSecond: 9}, {A: 4, B: 5, GBytesPerSecond: 9},
		{A: 0, B: 2, GBytesPerSecond: 1, Kind: TCP}, {A: 2, B: 1, GBytesPerSecond: 2, LatencyUs: 7, Kind: TCP},
		{A: 4, B: 0, GBytesPerSecond: 3, Kind: TCP}, {A: 5, B: 2, GBytesPerSecond: 4, Kind: TCP}}}
	if sub := g.Among([]int{1, 2, 3}); !slices.Equal(sub.Links[:1],
		[]Link{{A: 0, B: 1, GBytesPerSecond: 2, LatencyUs: 7, Kind: TCP}}) || len(sub.Links) != 2 {
		t.Errorf("ranks 1-3 have links %v", sub.Links)
	}
	if sub := g.Among([]int{3, 2, 1}); sub.Validate() != nil || len(sub.Links) != 2 ||
		sub.Links[1] != (Link{A: 1, B: 2, GBytesPerSecond: 2, LatencyUs: 7, Kind: TCP}) {
		t.Errorf("ranks 3, 2, 1 have links %v", sub.Links)
	}
	if sub := g.Among([]int{3, 1, 5}); !slices.Equal(sub.Links, []Link{
		{A: 0, B: 1, GBytesPerSecond: 2, LatencyUs: 7, Kind: TCP}, {A: 0, B: 2, GBytesPerSecond: 4, Kind: TCP},
		{A: 1, B: 2, GBytesPerSecond: 3, Kind: TCP}}) {
		t.Errorf("ranks 3, 1, 5 have links %v, want one per pair", sub.Links)
	}
}
