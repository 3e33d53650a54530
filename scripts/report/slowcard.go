package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"text/template"
	"time"

	"github.com/treerun/treerun/internal/testutil/nethosts"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

const (
	cardHosts = 8
	cardRate  = 12.5 // GB/s of a card in the table of plans: 100 Gbit/s
	rateFact  = "Mbit/s of the cards"
	// payload is the most that TCP carries of what a shaped card counts.
	payload = 1448.0 / 1514
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
			g.Links = append(g.Links, topo.Link{A: other, B: h, GBytesPerSecond: cardRate, LatencyUs: 30, Kind: "tcp"})
		}
		card := topo.Port{Name: fmt.Sprintf("card of host %d", h), Ranks: []int{h}, GBytesPerSecond: cardRate}
		if h == n-1 {
			card.GBytesPerSecond *= share
		}
		g.Ports = append(g.Ports, card)
	}
	return g
}

// cardBound is the most that an AllReduce by partial sums reaches on n hosts with
// cards of rate 1, one of them with a share of it.
func cardBound(n int, share float64) float64 {
	return cardsBound("allreduce", append(slices.Repeat([]float64{1}, n-1), share))
}

// ringRate is what a ring reaches: 2(n-1)/n messages go over every card.
func ringRate(n int, share float64) float64 { return share * float64(n) / float64(2*(n-1)) }

// slowCard measures AllReduce on hosts of which one has a slow card.
func (m *run) slowCard(ctx context.Context) error {
	m.fact(rateFact, "%d", m.mbits)
	return m.repetitions(ctx, func() error {
		for _, share := range shares {
			if err := m.onCards(ctx, share); err != nil {
				return err
			}
		}
		return nil
	})
}

// onCards measures one repetition with a card that has a share of the others' rate.
func (m *run) onCards(ctx context.Context, share float64) (err error) {
	rates := make([]string, cardHosts)
	for i := range rates {
		rates[i] = fmt.Sprintf("%dkbit", 1000*m.mbits)
	}
	rates[cardHosts-1] = fmt.Sprintf("%.0fkbit", 1000*float64(m.mbits)*share)
	h, err := makeHosts(cardHosts, nethosts.Network{Rates: rates})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	w := where{h, cardHosts, 1}
	bytes := int64(16 * mib)
	if m.quick {
		bytes = 256 * kib
	}
	l := load{ops: "allreduce", begin: bytes, end: bytes, factor: 2, iters: 3, warmup: 1, inPlace: "no", check: m.rep == 1}
	for _, who := range m.turn(self, "ring") {
		line := append([]string{m.treerun}, l.bench(w.ranks()...)...)
		if who != self {
			line = append(line, "--algorithm", who)
		}
		if err := m.job(ctx, w, 3*time.Minute, key{Part: fmt.Sprint(share), Who: who}, line...); err != nil {
			return err
		}
	}
	return nil
}

// slowCardPage is what the page is made of.
type slowCardPage struct {
	view
	Mbits    float64 // rate of the cards
	Hosts    int
	Shares   []float64
	Clusters []int // for how many hosts plans are shown
}

func slowCardFiles(r *record) (any, pictures, error) {
	mbits, err := strconv.ParseFloat(r.factOf(rateFact), 64)
	if err != nil || !(mbits > 0) {
		return nil, nil, fmt.Errorf("the record has no fact %q", rateFact)
	}
	return slowCardPage{view{record: r}, mbits, cardHosts, shares, []int{8, 16, 32, 64}}, nil, nil
}

// planned is what is planned for cards, in cards.
type planned struct{ Packed, Bound, Ring, Healthy float64 }

// plannedFor plans for n hosts. A bound of the packing that is not the closed form is an
// error.
func plannedFor(n int, share float64) (planned, error) {
	r, err := pack.Pack(cards(n, share), pack.BothWays, pack.Options{})
	if err != nil {
		return planned{}, err
	}
	p := planned{r.Rate / cardRate, r.Bound.Rate / cardRate, ringRate(n, share), cardBound(n, 1)}
	if want := cardBound(n, share); math.Abs(p.Bound-want) > 1e-6*want {
		return p, fmt.Errorf("%d hosts, a card of %s: the packing has bound %v, want %v", n, percent(share), p.Bound, want)
	}
	return p, nil
}

// slowCards are functions of the page's template.
var slowCards = template.FuncMap{
	"planned": plannedFor,
	"longer":  func(a, b float64) string { return fmt.Sprintf("%+.1f %%", math.Round(1000*(a/b-1))/10+0) },
}

// Least is the time that the bound allows, in microseconds.
func (p slowCardPage) Least(share float64) float64 {
	return float64(p.rows[0].Bytes) * 8 / (p.Mbits * payload * cardBound(cardHosts, share))
}

// Ring is the least that any ring could take with a slow card, over the bound.
func (p slowCardPage) Ring(share float64) float64 {
	return cardBound(cardHosts, share) / ringRate(cardHosts, share)
}

// Size is that of the message.
func (p slowCardPage) Size() int64 { return p.rows[0].Bytes }

// Repetitions is how many there are.
func (p slowCardPage) Repetitions() int {
	return len(distinct(p.rows, func(v *row) int { return v.Rep }))
}
