package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"

	"github.com/treerun/treerun/topo"
)

// Of the hosts in the table of plans.
const (
	cardRate  = 12.5 // GB/s of a card: 100 Gbit/s
	latencyUs = 30
)

// shares are the slow card's parts of the others' rate; the first has none slow.
var shares = []float64{1, 0.875, 0.75, 0.5}

// cards returns n hosts with a rank and a card each, on a switch that does not
// block. The last host's card has a share of the others' rate.
func cards(n int, share float64) *topo.Graph {
	g := &topo.Graph{Name: fmt.Sprintf("%d cards, one of %g %%", n, 100*share), Ranks: n}
	for h := range n {
		g.Hosts = append(g.Hosts, h)
		for other := range h {
			g.Links = append(g.Links, topo.Link{A: other, B: h, GBytesPerSecond: cardRate, LatencyUs: latencyUs, Kind: "tcp"})
		}
		card := topo.Port{Name: fmt.Sprintf("card of host %d", h), Ranks: []int{h}, GBytesPerSecond: cardRate}
		if h == n-1 {
			card.GBytesPerSecond *= share
		}
		g.Ports = append(g.Ports, card)
	}
	return g
}

// bound is the most that an AllReduce by partial sums reaches on n hosts with
// cards of rate 1, one of them with a share of it: every host takes in all of the
// message, and 2(n-1) messages go over all cards.
func bound(n int, share float64) float64 {
	return min(share, 1, (float64(n-1)+share)/float64(2*(n-1)))
}

// ring is what a ring reaches: 2(n-1)/n messages go over every card.
func ring(n int, share float64) float64 { return share * float64(n) / float64(2*(n-1)) }

// planned is what treerun plan says, in shares of a card's rate.
type planned struct {
	hosts             int
	share             float64
	plan, bound, ring float64
}

// plans asks treerun plan for all hosts and shares. Another bound than the closed
// form is an error.
func plans(ctx context.Context, treerun string) ([]planned, error) {
	var all []planned
	for n := 8; n <= 64; n *= 2 {
		for _, share := range shares {
			packed, limit, err := rates(ctx, treerun, n, share, "packing")
			if err != nil {
				return nil, err
			}
			around, _, err := rates(ctx, treerun, n, share, "ring")
			if err != nil {
				return nil, err
			}
			if want := bound(n, share); math.Abs(limit-want) > 1e-6*want {
				return nil, fmt.Errorf("%d hosts, a card of %g %%: treerun plan has bound %v, want %v", n, 100*share, limit, want)
			}
			all = append(all, planned{n, share, packed, limit, around})
		}
	}
	return all, nil
}

// rates returns the rate and the bound of treerun's plan with an algorithm, in
// shares of a card's rate.
func rates(ctx context.Context, treerun string, n int, share float64, with string) (rate, limit float64, err error) {
	graph, err := cards(n, share).AppendJSON(nil)
	if err != nil {
		return 0, 0, err
	}
	args := []string{"plan", "--graph", "-", "--algorithm", with, "--bytes", "64M", "--format", "json"}
	cmd := exec.CommandContext(ctx, treerun, args...)
	cmd.Stdin = bytes.NewReader(graph)
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("treerun plan --algorithm %s on %d hosts: %w", with, n, err)
	}
	var p struct {
		Rate  float64 `json:"rate_gbytes_per_second"`
		Bound float64 `json:"bound_gbytes_per_second"`
	}
	if err := json.Unmarshal(out, &p); err != nil || !(p.Rate > 0 && p.Bound > 0) {
		return 0, 0, fmt.Errorf("treerun plan --algorithm %s on %d hosts printed %.100q: %w", with, n, out, err)
	}
	return p.Rate / cardRate, p.Bound / cardRate, nil
}
