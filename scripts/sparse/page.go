package main

import (
	"fmt"
	"math"
	"strings"
)

// densities are those of the page, falling.
var densities = []float64{1, .8, .4, .2, .1, .08, .04, .02, .01}

// page writes the page from a record.
func page(r record) string {
	var b strings.Builder
	b.WriteString(`# Sparse AllReduce: treerun beside its own dense AllReduce and MPI

` + "`scripts/sparse.sh` measured this, and `scripts/sparse.sh page` writes the page again from [sparse.jsonl](sparse.jsonl)." + `
The hosts are network namespaces of one machine (package ` + "`internal/testutil/nethosts`" + `), whose cores all of them share; every host sends and
receives at most 500 Mbit/s. Times are medians over iterations, each as long as on its slowest rank and from its own exit of a
barrier, in place, float32, sum, blocks of 256 elements; every element of every row's result was compared. "density" is the part of a rank's blocks that
are not zero, "union" that of the blocks that any rank has. Overlap: *full*, all ranks have the same blocks; *random*, each has drawn its
own; *none*, as few as can be are the same.

"limit" is the least time by section 2(d) of the design's facts: the blocks of a host, or those of all others, whichever are
more, at the rate that was measured of the network. It does not count what has to be sent twice where ranks alone add up, with no
machine between them: of a block that k of n hosts have, k-1 messages until one knows the sum, and n-1 to all others. "can be" is the
share of the limit that this leaves, and a goal above it cannot be reached. On one host, in place, the limit is the least time in which the ranks were seen to search their tensors, all at once:
every rank has to look at all of its own for what is not zero. That is at the rate of memory ([why](sparse-why.md)). Where
the result goes to other memory, the limit is as much copied.

`)
	b.WriteString("| run |  |\n|---|---|\n")
	for _, e := range r {
		if e.Fact != "" {
			fmt.Fprintf(&b, "| %s | %s |\n", e.Fact, strings.ReplaceAll(e.Value, "|", "/"))
		}
	}
	b.WriteString(goals(r))
	for _, perHost := range []int{2, 1} {
		set := fmt.Sprintf("4x%d", perHost)
		fmt.Fprintf(&b, "\n## Four hosts, %d workers: 104,857,600 bytes\n\n", 4*perHost)
		dense(&b, r, set)
		for _, overlap := range []string{"random", "full", "none"} {
			table(&b, r, set, overlap, false)
		}
	}
	for _, np := range []int{2, 4, 8} {
		set := fmt.Sprintf("1x%d", np)
		fmt.Fprintf(&b, "\n## One host, %d ranks over shared memory: 64 MiB\n\n", np)
		for _, inPlace := range []bool{true, false} {
			for _, overlap := range []string{"random", "full"} {
				table(&b, r, set, overlap, inPlace)
			}
		}
	}
	b.WriteString(carriedPart(r))
	return b.String()
}

// carriedPart compares where the aggregators are, "" if nothing was measured.
func carriedPart(r record) string {
	var rows []string
	for _, set := range []string{"4x2", "1x4"} {
		for _, d := range densities {
			line, any := fmt.Sprintf("| %s | %g |", map[string]string{"4x2": "four, 8 ranks", "1x4": "one, 4 ranks"}[set], d), false
			for i, form := range carried {
				e := r.find(set+"-"+form+"-random", d, true)
				if e == nil {
					line += " |"
					continue
				}
				any = any || i > 0
				line += " " + ms(e.TimeUs) + " |"
			}
			if any {
				rows = append(rows, line)
			}
		}
	}
	const removed = "\nMeasured and removed: OmniReduce's Algorithm 2 over UDP, slower than the links in every row, and aggregators\n" +
		"in processes beside the ranks, slower than the trees between hosts.\n"
	if len(rows) == 0 {
		return removed
	}
	return `
## With aggregators: where they are

The same tensors, random overlap, in place. On the ranks: an aggregator on each. Of their own: ` + "`--aggregators 4`" + `, four more ranks,
on the same hosts, that only aggregate.

| hosts | density | on the ranks | of their own |
|---|---|---|---|
` + strings.Join(rows, "\n") + "\n" + removed
}

// dense says what the dense AllReduces took.
func dense(b *strings.Builder, r record, set string) {
	for _, who := range []string{"plain", "openmpi", "openmpi:ring", "mpich"} {
		if e := r.row(set+"-"+who, 0); e != nil {
			name := map[string]string{"plain": "treerun's dense AllReduce", "openmpi": "Open MPI", "openmpi:ring": "Open MPI with its ring", "mpich": "MPICH"}[who]
			fmt.Fprintf(b, "%s: %s. ", name, ms(e.TimeUs))
		}
	}
	b.WriteString("\n")
}

// row finds a row of several hosts, which are in place but for those of an older
// record; of one host the pass is given.
func (r record) row(name string, density float64) *entry {
	if e := r.find(name, density, true); e != nil {
		return e
	}
	return r.find(name, density, false)
}

func table(b *strings.Builder, r record, set, overlap string, inPlace bool) {
	get := func(form string, d float64) *entry {
		if strings.HasPrefix(set, "1x") {
			return r.find(set+"-"+form+"-"+overlap, d, inPlace)
		}
		return r.row(set+"-"+form+"-"+overlap, d)
	}
	plain := r.row(set+"-plain", 0)
	if strings.HasPrefix(set, "1x") {
		plain = r.find(set+"-plain", 0, inPlace)
	}
	hosts, perHost := 0, 0
	_, _ = fmt.Sscanf(set, "%dx%d", &hosts, &perHost)
	var rows []string
	for _, d := range densities {
		chosen, trees := get("price", d), get("trees", d)
		if chosen == nil && trees == nil {
			continue
		}
		all := []*entry{chosen}
		for _, form := range forms(hosts) {
			all = append(all, get(form, d))
		}
		line := fmt.Sprintf("| %g |", d)
		least, union, sent := math.Inf(1), 0.0, int64(0)
		for _, e := range all {
			if e != nil {
				least, union, sent = min(least, e.FloorUs), max(union, e.Union), max(sent, e.Sent)
			}
		}
		if hosts == 1 && inPlace {
			least = r.search(set)
		}
		line += fmt.Sprintf(" %.3g %% |", 100*union)
		for _, e := range all {
			if e == nil {
				line += " |"
				continue
			}
			line += " " + ms(e.TimeUs)
			if e == chosen {
				line += " " + e.Form
			}
			line += " |"
		}
		best := chosen
		if best == nil {
			best = trees
		}
		speedup := " |"
		if plain != nil {
			speedup = fmt.Sprintf(" %.2f |", plain.TimeUs/best.TimeUs)
		}
		can := ""
		if hosts > 1 {
			can = fmt.Sprintf("%.2f", attainable(hosts, perHost, d, overlap))
		}
		line += speedup + fmt.Sprintf(" %s | %.2f | %s | %.1f MB |", ms(least), least/best.TimeUs, can, float64(sent)/1e6)
		rows = append(rows, line)
	}
	if len(rows) == 0 {
		return
	}
	pass := ""
	if strings.HasPrefix(set, "1x") {
		pass = ", in place"
		if !inPlace {
			pass = ", not in place"
		}
		if plain != nil {
			pass += ": the dense plan takes " + ms(plain.TimeUs)
		}
	}
	fmt.Fprintf(b, "\n%s overlap%s\n\n| density | union | by price | %s | dense over this | limit | share of limit | can be | sent, most |\n|---|---|---|%s---|---|---|---|---|\n%s\n",
		strings.ToUpper(overlap[:1])+overlap[1:], pass, strings.Join(forms(hosts), " | "), strings.Repeat("---|", len(forms(hosts))), strings.Join(rows, "\n"))
}

// ms prints microseconds as milliseconds.
func ms(us float64) string {
	digits := 0
	switch {
	case us < 10e3:
		digits = 2
	case us < 100e3:
		digits = 1
	}
	return fmt.Sprintf("%.*f ms", digits, us/1e3)
}
