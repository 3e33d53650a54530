package topo

import (
	"reflect"
	"testing"
)

// twoByTwo is two hosts of two ranks with one wire, on whose second host both
// ranks have a card of their own.
func twoByTwo(links ...Link) *Graph {
	return &Graph{Ranks: 4, Hosts: []int{5, 3, 5, 3}, Links: append([]Link{
		{A: 0, B: 2, GBytesPerSecond: 10, Kind: "shm"}, {A: 1, B: 3, GBytesPerSecond: 10, Kind: "shm"}}, links...),
		Ports: []Port{{Name: "card 5", Ranks: []int{2, 0}, GBytesPerSecond: 3},
			{Name: "card of 1", Ranks: []int{1}, GBytesPerSecond: 1}}}
}

// A pair of ranks of two hosts goes over its own link, or over the wire of the
// hosts where that is TCP; of several wires over the quickest.
func TestWays(t *testing.T) {
	wire := Link{A: 0, B: 1, GBytesPerSecond: 2, LatencyUs: 20, Kind: TCP}
	quick := Link{A: 2, B: 1, GBytesPerSecond: 4, LatencyUs: 30, Kind: TCP}
	other := Link{A: 2, B: 3, GBytesPerSecond: 1, Kind: "net"}
	for name, c := range map[string]struct {
		links []Link
		want  map[[2]int]int // link, -1 for none
	}{
		"one wire":         {[]Link{wire}, map[[2]int]int{{0, 1}: 2, {3, 2}: 2, {0, 3}: 2, {0, 2}: 0, {1, 3}: 1}},
		"two wires":        {[]Link{wire, quick}, map[[2]int]int{{0, 1}: 3, {3, 2}: 3, {2, 1}: 3, {2, 0}: 0}},
		"a link of theirs": {[]Link{wire, other}, map[[2]int]int{{0, 1}: 2, {2, 3}: 3, {0, 3}: 2}},
		"no wire":          {[]Link{other}, map[[2]int]int{{0, 1}: -1, {2, 3}: 2, {1, 2}: -1, {3, 1}: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			ways := NewWays(twoByTwo(c.links...))
			for pair, want := range c.want {
				got := -1
				if route := ways.Route(pair[0], pair[1]); len(route) == 1 {
					got = route[0].Link
				} else if len(route) > 1 {
					t.Errorf("ranks %v go over %v", pair, route)
				}
				if got != want {
					t.Errorf("ranks %v go over link %d, want %d", pair, got, want)
				}
			}
		})
	}
}

// Hosts without a wire reach each other over the fewest others; links of other
// kinds are for their own two ranks.
func TestRouteOverHosts(t *testing.T) {
	g := &Graph{Ranks: 5, Hosts: []int{0, 1, 2, 3, 3}, Links: []Link{
		{A: 1, B: 0, GBytesPerSecond: 1, Kind: TCP}, {A: 1, B: 2, GBytesPerSecond: 1, Kind: TCP},
		{A: 3, B: 2, GBytesPerSecond: 1, Kind: TCP}, {A: 0, B: 4, GBytesPerSecond: 9, Kind: "net"},
		{A: 3, B: 4, GBytesPerSecond: 9}}}
	w := NewWays(g)
	for _, c := range []struct {
		a, b int
		want []Hop
	}{
		{0, 3, []Hop{{0, true}, {1, false}, {2, true}}},
		{4, 0, []Hop{{3, true}}},
		{4, 1, []Hop{{2, false}, {1, true}}},
		{3, 4, []Hop{{4, false}}},
		{2, 2, nil},
	} {
		if got := w.Route(c.a, c.b); !reflect.DeepEqual(got, c.want) {
			t.Errorf("from %d to %d: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// The graph of the hosts has the rates of all links together, where they are not one wire, and the ports of whole
// hosts; links and ports inside a host are separate.
func TestBetweenHosts(t *testing.T) {
	g := twoByTwo(
		Link{A: 0, B: 1, GBytesPerSecond: 2, LatencyUs: 20, Kind: TCP},
		Link{A: 2, B: 1, GBytesPerSecond: 4, LatencyUs: 30, Kind: TCP},
		Link{A: 3, B: 2, GBytesPerSecond: 1, LatencyUs: 7, Kind: "net"})
	hosts := [][]int{{0, 2}, {1, 3}}
	got := g.BetweenHosts(hosts)
	want := &Graph{Ranks: 2, Links: []Link{{A: 0, B: 1, GBytesPerSecond: 5, LatencyUs: 7, Kind: TCP}},
		Ports: []Port{{Name: "card 5", Ranks: []int{0}, GBytesPerSecond: 3}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("between: %+v, want %+v", got, want)
	}
	in := g.Among(hosts[1])
	want = &Graph{Ranks: 2, Hosts: []int{g.Hosts[1], g.Hosts[3]},
		Links: []Link{{A: 0, B: 1, GBytesPerSecond: 10, Kind: "shm"}},
		Ports: []Port{{Name: "card of 1", Ranks: []int{0}, GBytesPerSecond: 1}}}
	if !reflect.DeepEqual(in, want) {
		t.Errorf("inside: %+v, want %+v", in, want)
	}
}
