package main

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/treerun/treerun/scripts/internal/results"
	"github.com/treerun/treerun/topo/pack"
)

const intro = `# Packing several trees

What package ` + "`topo/pack`" + ` makes of the multi-tree document (Luo, Wang and Xing: a global reduction with several
spanning trees; CN patent, and IEEE TNSE 2024): trees with rates that no link has to carry more than it can, each used
upwards to reduce and downwards to broadcast. Nothing here was measured; the same sources write the same page:

    go run ./scripts/packing page docs/results

The rates are those of ` + "`treerun plan`" + `, for example

    treerun plan --graph abilene --algorithm packing --max-trees 4 --max-height 6 --min-rate 0.1
    go run ./scripts/packing graph mesh12 | treerun plan --graph - --algorithm packing --greedy

"exact" is the linear program (column generation over spanning trees). Its bound, the most that any trees can have, is
proved by a partition of the ranks. "greedy" is step 1 of the document: trees one after the other, each over the
widest links that are left, by a quantum of the rate at a time (a 64th of the bound, or a 16th of the slowest link where
that is more; with a least rate r, r). Figures are cut, not rounded.`

// What stands above the tables.
const (
	countNote = `Share of the bound in percent. Exact: chosen among the linear program's trees and others, with rates by
a linear program again. Greedy: the document does not say how it chooses K trees (its step 3); these are the K fastest
of the greedy search with the rates that it gave them, for the best of six quanta, from a 64th to a half of the bound.`

	heightNote = `Share of the bound, exact / greedy, in percent. H is in links, from the least that a spanning tree of
the network can have (the radius).`

	rateNote = `Share of the bound in percent, and how many trees have it, exact / greedy. r is a part of the bound; "-"
where no tree is as fast.`

	toleranceNote = `Step 2 of the document, a binary search: heights in links and share of the bound in percent, exact /
greedy; below it the same with heights in milliseconds of delay, between sites.`
)

// page returns the page.
func page(all []network) ([]byte, error) {
	p := &results.Page{}
	p.Line("%s", intro)
	bounds := make([]pack.Bound, len(all))
	for i, n := range all {
		var err error
		if bounds[i], err = pack.TreeBound(n.graph); err != nil {
			return nil, err
		}
	}
	parts := []func(*results.Page, []network, []pack.Bound) error{overview, byCount, byHeight, byRate, byTolerance}
	for _, part := range parts {
		if err := part(p, all, bounds); err != nil {
			return nil, err
		}
	}
	return append(bytes.TrimRight(p.Bytes(), "\n"), '\n'), nil
}

// overview has the networks with their bounds.
func overview(p *results.Page, all []network, bounds []pack.Bound) error {
	p.Line("## The networks, without limits")
	rows := [][]string{{"network", "", "links", "bound, GB/s", "exact, %", "trees", "highest",
		"greedy, %", "trees", "highest", "best one tree, %"}}
	for i, n := range all {
		row := []string{n.graph.Name, n.about, fmt.Sprint(len(n.graph.Links)), results.Number(bounds[i].Rate)}
		for _, o := range []pack.Options{{}, {Greedy: true}, {MaxTrees: 1}} {
			r, err := pack.Pack(n.graph, o)
			if err != nil {
				return err
			}
			row = append(row, percent(r.Ratio))
			if o.MaxTrees == 0 {
				row = append(row, fmt.Sprint(len(r.Trees)), fmt.Sprint(height(r)))
			}
		}
		rows = append(rows, row)
	}
	p.Table(rows)
	p.Line("Rates are shares of the bound, heights are in links. What the limit is:")
	for i, n := range all {
		fmt.Fprintf(p, "- %s: %s\n", n.graph.Name, bounds[i])
	}
	p.WriteByte('\n')
	return nil
}

// byCount has the rates with at most K trees.
func byCount(p *results.Page, all []network, bounds []pack.Bound) error {
	p.Line("## At most K trees")
	p.Line("%s", countNote)
	greedy := make([][]*pack.Result, len(all))
	for i, n := range all {
		for part := 64; part > 1; part /= 2 {
			r, err := pack.Pack(n.graph, pack.Options{Greedy: true, MinRate: bounds[i].Rate / float64(part)})
			if err != nil {
				return err
			}
			if r.Note == "" { // else no tree is as fast
				greedy[i] = append(greedy[i], r)
			}
		}
	}
	rows := [][]string{head("K", all)}
	for _, k := range []int{1, 2, 3, 4, 6, 8, 12, 16} {
		row := []string{fmt.Sprint(k)}
		for i, n := range all {
			exact, err := pack.Pack(n.graph, pack.Options{MaxTrees: k})
			if err != nil {
				return err
			}
			best := 0.0
			for _, r := range greedy[i] {
				best = max(best, fastest(r, k)/bounds[i].Rate)
			}
			row = append(row, percent(exact.Ratio)+" / "+percent(best))
		}
		rows = append(rows, row)
	}
	p.Table(rows)
	return nil
}

// byHeight has the rates under a height.
func byHeight(p *results.Page, all []network, _ []pack.Bound) error {
	p.Line("## No tree higher than H")
	p.Line("%s", heightNote)
	radius := make([]int, len(all))
	for i, n := range all {
		lowest, err := pack.Pack(n.graph, pack.Options{MaxHeight: 1e-9}) // loosened to the least that there is
		if err != nil {
			return err
		}
		radius[i] = height(lowest)
	}
	var rows [][]string
	for more := range 4 {
		name := "radius"
		if more > 0 {
			name = fmt.Sprintf("radius + %d", more)
		}
		row, err := pairs(all, rate, func(i int) pack.Options { return pack.Options{MaxHeight: float64(radius[i] + more)} })
		if err != nil {
			return err
		}
		rows = append(rows, append([]string{name}, row...))
	}
	first := []string{"radius, links"}
	for _, r := range radius {
		first = append(first, fmt.Sprint(r))
	}
	p.Table(append([][]string{head("H", all), first}, rows...))
	return nil
}

// byRate has the rates where no tree is slower than r.
func byRate(p *results.Page, all []network, bounds []pack.Bound) error {
	p.Line("## No tree slower than r")
	p.Line("%s", rateNote)
	var rows [][]string
	for part := 64; part > 1; part /= 2 {
		row, err := pairs(all, rateAndCount, func(i int) pack.Options {
			return pack.Options{MinRate: bounds[i].Rate / float64(part)}
		})
		if err != nil {
			return err
		}
		rows = append(rows, append([]string{fmt.Sprintf("1/%d", part)}, row...))
	}
	p.Table(append([][]string{head("r", all)}, rows...))
	return nil
}

// byTolerance has what step 2 finds.
func byTolerance(p *results.Page, all []network, _ []pack.Bound) error {
	p.Line("## The least height that costs no more of the rate than is allowed")
	p.Line("%s", toleranceNote)
	tolerances := []float64{0.001, 0.01, 0.05, 0.1, 0.2}
	for _, by := range []pack.Delay{pack.Hops, pack.Microseconds} {
		of := all
		show := func(r *pack.Result) string { return fmt.Sprintf("%d links %s", height(r), percent(r.Ratio)) }
		if by == pack.Microseconds {
			of = all[:4]
			show = func(r *pack.Result) string {
				return fmt.Sprintf("%.0f ms %s", slices.Max(r.HeightsUs)/1000, percent(r.Ratio))
			}
		}
		var rows [][]string
		for _, t := range tolerances {
			row, err := pairs(of, show, func(int) pack.Options { return pack.Options{HeightTolerance: t, Delay: by} })
			if err != nil {
				return err
			}
			rows = append(rows, append([]string{percent(t) + " %"}, row...))
		}
		p.Table(append([][]string{head("allowed", of)}, rows...))
	}
	return nil
}

// head is the first row of a table with a column for every network.
func head(first string, all []network) []string {
	row := []string{first}
	for _, n := range all {
		row = append(row, n.graph.Name)
	}
	return row
}

// pairs returns what show says of every network's exact and greedy packing, with
// the options of network i.
func pairs(all []network, show func(*pack.Result) string, options func(i int) pack.Options) (row []string, err error) {
	for i, n := range all {
		o := options(i)
		exact, err := pack.Pack(n.graph, o)
		if err != nil {
			return nil, err
		}
		o.Greedy = true
		greedy, err := pack.Pack(n.graph, o)
		if err != nil {
			return nil, err
		}
		row = append(row, show(exact)+" / "+show(greedy))
	}
	return row, nil
}

func rate(r *pack.Result) string { return percent(r.Ratio) }

func rateAndCount(r *pack.Result) string {
	if r.Note != "" {
		return "-"
	}
	return fmt.Sprintf("%s (%d)", percent(r.Ratio), len(r.Trees))
}

// fastest is the sum of the k largest rates.
func fastest(r *pack.Result, k int) (sum float64) {
	for _, rate := range r.Rates[:min(k, len(r.Rates))] {
		sum += rate
	}
	return sum
}

// percent writes a share of at most 1 in percent; 100 only for all.
func percent(share float64) string {
	tenths := int(share*1000 + 1e-3)
	if tenths%10 == 0 {
		return fmt.Sprint(tenths / 10)
	}
	return fmt.Sprintf("%d.%d", tenths/10, tenths%10)
}

// height is that of the highest tree, in links.
func height(r *pack.Result) int {
	most := 0
	for i := range r.Trees {
		most = max(most, r.Trees[i].Depth())
	}
	return most
}
