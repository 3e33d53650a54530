package network

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// Changes names the host whose card has another rate, and not its pairs; or the pair where that is all; and no noise.
func TestChanges(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	of := func(w *world) *Network {
		n, err := Infer(names, w.find(Quick, 0.02, 3))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	rates := func(ab float64) [][]float64 {
		return matrix(4, func(a, b int) float64 {
			if a+b == 1 {
				return ab
			}
			return 1
		})
	}
	cardsOf := func(last float64) *Network { return of(both(1, 1, 1, last)) }
	for _, c := range []struct {
		was, now *Network
		most     float64
		want     []string
	}{
		{cardsOf(1), cardsOf(1), math.Inf(1), nil},
		{cardsOf(1), cardsOf(0.9), math.Inf(1), nil},
		{cardsOf(1), cardsOf(0.25), math.Inf(1), []string{"d: 0.25 GB/s, was 1"}},
		{cardsOf(0.25), cardsOf(1), math.Inf(1), []string{"d: 1 GB/s, was 0.25"}},
		{cardsOf(1), cardsOf(0.25), 0.25, nil},
		{of(mesh(rates(1))), of(mesh(rates(0.5))), math.Inf(1), []string{"a and b: 0.5 GB/s, was 1"}},
	} {
		var got []string
		for _, change := range c.now.Changes(c.was, c.most) {
			change.Was, change.Now = math.Round(change.Was*20)/20, math.Round(change.Now*20)/20
			got = append(got, change.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v -> %v: %q, want %q", c.was.hostRates(), c.now.hostRates(), got, c.want)
		}
	}
	if got := fmt.Sprintf("%.2f", cardsOf(0.25).Slowest()); got != "0.25" {
		t.Errorf("the slowest host has %s GB/s", got)
	}
}

// Once measures each pair both ways, and each host with the others, one time.
func TestOnce(t *testing.T) {
	seen := make(map[string]int)
	for i, turn := range Once(4) {
		if turn.Number != i {
			t.Errorf("turn %d has number %d", i, turn.Number)
		}
		seen[fmt.Sprint(turn.Trips, turn.Flows)]++
	}
	if all := Turns(4, Quick); len(all) != 2*len(seen) || len(seen) != 3*4+2*4 {
		t.Errorf("%d turns once, %d in all", len(seen), len(all))
	}
}
