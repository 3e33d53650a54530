package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/testutil/nethosts"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

const (
	cardHosts = 8
	cardRate  = 12.5 // GB/s of a card in the table of plans: 100 Gbit/s
	rateFact  = "Mbit/s of the cards"
	chosen    = "treerun" // by treerun itself; other names are algorithms

	// payload is the most that TCP carries of what a shaped card counts.
	payload = 1448.0 / 1514

	cardGoal = 1.05 // of the bound's time, with a card of half the rate
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
	for _, who := range m.turn(chosen, "ring") {
		line := append([]string{m.treerun}, l.bench(w.ranks()...)...)
		if who != chosen {
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
	*record
	Hosts int
	Goal  float64
}

func slowCardFiles(r *record) (any, pictures, error) {
	if v, err := strconv.ParseFloat(r.factOf(rateFact), 64); err != nil || !(v > 0) {
		return nil, nil, fmt.Errorf("the record has no fact %q", rateFact)
	}
	return slowCardPage{r, cardHosts, cardGoal}, nil, nil
}

// Mbits is the rate of the cards.
func (p slowCardPage) Mbits() float64 {
	v, _ := strconv.ParseFloat(p.factOf(rateFact), 64) // it has been checked
	return v
}

// Size is that of the message.
func (p slowCardPage) Size() string { return numbers.Bytes(p.rows[0].Bytes) }

// Planned is the table of what is planned. A bound of the packing that is not the
// closed form is an error.
func (p slowCardPage) Planned() (table, error) {
	t := table{{"hosts", "slow card", "plan", "bound", "plan of bound", "ring", "plan, longer", "ring, longer"}}
	four := func(v float64) string { return fmt.Sprintf("%.4f", v) }
	more := func(ratio float64) string { return fmt.Sprintf("%+.1f %%", math.Round(1000*(ratio-1))/10+0) }
	for n := 8; n <= 64; n *= 2 {
		for _, share := range shares {
			r, err := pack.Pack(cards(n, share), pack.BothWays, pack.Options{})
			if err != nil {
				return nil, err
			}
			healthy, ring, want := cardBound(n, 1), ringRate(n, share), cardBound(n, share)
			packed, bound := r.Rate/cardRate, r.Bound.Rate/cardRate
			if math.Abs(bound-want) > 1e-6*want {
				return nil, fmt.Errorf("%d hosts, a card of %s: the packing has bound %v, want %v", n, percent(share), bound, want)
			}
			t.line(n, percent(share), four(packed), four(bound), ratio(packed/bound), four(ring),
				more(healthy/packed), more(healthy/ring))
		}
	}
	return t, nil
}

// Executed is the table of what was measured, with a sentence on what is slow.
func (p slowCardPage) Executed() string {
	t := table{{"slow card", "by", "time, ms", "bound, ms", "time over bound", "a ring", "algorithm"}}
	var slower []string
	for _, share := range shares {
		for _, who := range distinct(p.rows, func(v *row) string { return v.Who }) {
			of := p.of(key{Part: fmt.Sprint(share), Who: who})
			if len(of) == 0 {
				continue
			}
			least := float64(of[0].Bytes) * 8 / (p.Mbits() * payload * cardBound(cardHosts, share)) // microseconds
			time, around := of.value(key{}), cardBound(cardHosts, share)/ringRate(cardHosts, share)
			if who == chosen && time/least > max(cardGoal, around) {
				slower = append(slower, percent(share))
			}
			t.line(percent(share), who, fmt.Sprintf("%.0f", time/1000), fmt.Sprintf("%.0f", least/1000),
				fmt.Sprintf("%.3f", time/least), ratio(around), strings.Join(of.plans(), ", "))
		}
	}
	if len(slower) == 0 {
		return t.String()
	}
	return fmt.Sprintf("%s\n\nSlower than the best ring could be, and than the goal: %s.", t, strings.Join(slower, ", "))
}

// About is the table of facts.
func (p slowCardPage) About() table {
	repetitions := distinct(p.rows, func(v *row) int { return v.Rep })
	return p.Run([]string{"repetitions", fmt.Sprint(len(repetitions))}, p.away())
}
