package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"text/template"

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

// slowCard returns n hosts with cards of a rate, one of which has a share of it.
func slowCard(n int, rate, share float64) *topo.Graph {
	g := cards(append(slices.Repeat([]float64{rate}, n-1), rate*share))
	g.Name = fmt.Sprintf("%d cards, one of %g %%", n, 100*share)
	return g
}

// ringRate is what a ring reaches: 2(n-1)/n messages go over every card.
func ringRate(n int, share float64) float64 { return share * float64(n) / float64(2*(n-1)) }

// slowCardPage is what the page is made of.
type slowCardPage struct {
	view
	Mbits    float64 // rate of the cards
	Hosts    int
	Shares   []float64
	Clusters []int // for how many hosts plans are shown
}

func slowCardFiles(r *record, _ pictures) (any, error) {
	mbits, err := strconv.ParseFloat(r.factOf(rateFact), 64)
	if err != nil || !(mbits > 0) {
		return nil, fmt.Errorf("the record has no fact %q", rateFact)
	}
	return slowCardPage{view{record: r}, mbits, cardHosts, shares, []int{8, 16, 32, 64}}, nil
}

// planned is what is planned for cards, in cards.
type planned struct{ Packed, Bound, Ring, Healthy float64 }

// plannedFor plans for n hosts. A bound of the packing that is not the closed form is an
// error.
func plannedFor(n int, share float64) (planned, error) {
	r, err := pack.Pack(slowCard(n, cardRate, share), pack.BothWays, pack.Options{})
	if err != nil {
		return planned{}, err
	}
	return planned{r.Rate / cardRate, r.Bound.Rate / cardRate, ringRate(n, share), cardBound(n, 1)}, nil
}

// cardBound is the most that an AllReduce reaches on n hosts with cards of rate 1, one of them
// with a share of it.
func cardBound(n int, share float64) float64 { return boundOn(slowCard(n, 1, share), "allreduce") }

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
