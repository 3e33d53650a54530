package main

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/treerun/treerun/scripts/internal/results"
)

const (
	rateFact = "Mbit/s of the cards"
	chosen   = "treerun" // by treerun itself; other names are algorithms

	// payload is the most that TCP carries of what a shaped card counts.
	payload = 1448.0 / 1514

	goal = 1.05 // of the bound's time, with a card of half the rate
)

const intro = `# One slow card

A network card that runs at a part of its rate (a bad cable, a lane lost) slows a ring down to that part: a ring needs
all cards alike. Trees need no more of the slow card than one message each way. No AllReduce that moves partial sums is
faster than min(min B, sum B / (2(p-1))) for p hosts with cards of rates B. ` + "`scripts/slow-card.sh`" + `
measured this page, and ` + "`scripts/slow-card.sh page`" + ` writes it again from [slow-card.tsv](slow-card.tsv).

## Planned

p hosts with a card of 12.5 GB/s each, on a switch that does not block; the card of one has a part of that rate. The
rates are those of ` + "`treerun plan --format json`" + `, in cards:

    go run ./scripts/slowcard graph 8 0.5 | treerun plan --graph - --algorithm packing --bytes 64M --format json
    go run ./scripts/slowcard graph 8 0.5 | treerun plan --graph - --algorithm ring --bytes 64M --format json

"longer" is the time over that with all cards healthy, for a large message.`

const measured = `%d network namespaces of one machine with a rank each, cards shaped by token buckets to %g Mbit/s each
way (package ` + "`internal/testutil/nethosts`" + `); ` + "`treerun bench`" + `, AllReduce of %s of float32, links
measured by the job itself. Times are medians over the repetitions of the median of three calls; in the first
repetition every element was compared. The bound is that of TCP's payload, 1448 of 1514 bytes. "a ring" is the least
that any ring could take, over the same bound. The goal is at most %g of the bound's time with one card at half its
rate.`

// page writes the page.
func page(plans []planned, r *results.Record) ([]byte, error) {
	p := &results.Page{}
	p.Line("%s", intro)
	rows := [][]string{{"hosts", "slow card", "plan", "bound", "plan of bound", "ring", "plan, longer", "ring, longer"}}
	for _, x := range plans {
		healthy := bound(x.hosts, 1)
		rows = append(rows, []string{
			fmt.Sprint(x.hosts), percent(x.share), fmt.Sprintf("%.4f", x.plan), fmt.Sprintf("%.4f", x.bound),
			results.Ratio(x.plan / x.bound), fmt.Sprintf("%.4f", x.ring), more(healthy / x.plan), more(healthy / x.ring),
		})
	}
	p.Table(rows)
	if err := executed(p, r); err != nil {
		return nil, err
	}
	return append(bytes.TrimRight(p.Bytes(), "\n"), '\n'), nil
}

// executed writes what was measured.
func executed(p *results.Page, r *results.Record) error {
	rate := 0.0
	facts := [][]string{{"run", ""}}
	for _, f := range r.Facts {
		if f.Name == rateFact {
			rate, _ = strconv.ParseFloat(f.Value, 64)
		}
		facts = append(facts, []string{f.Name, f.Value})
	}
	if !(rate > 0) || len(r.Figures) == 0 {
		return fmt.Errorf("the record has no rate of the cards, or no figures")
	}
	all := r.Pick(func(*results.Figure) bool { return true })
	p.Line("## Executed")
	p.Line(measured, hosts, rate, results.Size(r.Figures[0].Bytes), goal)
	rows := [][]string{{"slow card", "by", "time, ms", "bound, ms", "time over bound", "a ring", "algorithm"}}
	var slower []string
	for _, share := range shares {
		for _, who := range results.Distinct(all, func(f *results.Figure) string { return f.Who }) {
			of := r.Pick(func(f *results.Figure) bool { return f.Part == part(share) && f.Who == who })
			if len(of) == 0 {
				continue
			}
			least := float64(of[0].Bytes) * 8 / (rate * payload * bound(hosts, share)) // microseconds
			time, around := results.MedianOf(of), bound(hosts, share)/ring(hosts, share)
			if who == chosen && time/least > max(goal, around) {
				slower = append(slower, percent(share))
			}
			rows = append(rows, []string{percent(share), who, fmt.Sprintf("%.0f", time/1000), fmt.Sprintf("%.0f", least/1000),
				fmt.Sprintf("%.3f", time/least), results.Ratio(around), names(of)})
		}
	}
	p.Table(rows)
	if len(slower) > 0 {
		p.Line("Slower than the best ring could be, and than the goal: %s.", strings.Join(slower, ", "))
	}
	repetitions := results.Distinct(all, func(f *results.Figure) int { return f.Rep })
	facts = append(facts, []string{"repetitions", fmt.Sprint(len(repetitions))})
	p.Table(append(facts, results.AwayRow(all)))
	return nil
}

// names are the plans that figures had.
func names(list []*results.Figure) string {
	text := ""
	for _, name := range results.Distinct(list, func(f *results.Figure) string { return f.Plan }) {
		text += ", " + name
	}
	return text[2:]
}

func percent(share float64) string { return fmt.Sprintf("%g %%", 100*share) }

// more writes by how much a time is longer.
func more(ratio float64) string { return fmt.Sprintf("%+.1f %%", math.Round(1000*(ratio-1))/10+0) }
