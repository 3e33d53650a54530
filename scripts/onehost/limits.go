package main

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/scripts/internal/results"
)

// limits compares the large messages with what memory allows.
func (b *writer) limits() {
	b.Line("## The limit of memory, from 16 MiB up")
	b.Line("`membw` measured the rates below in the same run, with two threads: payload in GB/s (1e9 bytes), median of the repetitions.\n" +
		"A copy of b bytes reads b and writes b; a sum c=a+b of b bytes reads 2b and writes b.")
	rates := [][]string{{"bytes per thread", "copy", "sum c=a+b"}}
	for _, bytes := range b.sizes("membw", "memcpy", 2) {
		rates = append(rates, []string{results.Size(bytes), results.Number(b.cell("membw", "memcpy", 2, bytes, "machine")), results.Number(b.cell("membw", "sum_c=a+b", 2, bytes, "machine"))})
	}
	b.Table(rates)
	b.Line("Two limits, for a message of S bytes on n ranks:\n\n" +
		"- *least*: what any implementation must move. A rank reads S and writes S for AllReduce; for Broadcast in place the root reads S\n" +
		"  and each other rank writes S, on the average S/n read and S(n-1)/n written. At the copy rate: AllReduce nS / copy, Broadcast nS / 2 copy.\n" +
		"- *mix*: as the ranks can share it. AllReduce: every rank sums its part of all inputs, (n+1)S read and written together, at the\n" +
		"  rate of the sum ((n+1)S / 3 sum), and copies the parts of the others ((n-1)S / copy). Broadcast: n-1 copies, (n-1)S / copy.\n\n" +
		"Rates between the sizes of `membw` are interpolated. \"bench\" is the share of the least that `treerun bench` gives itself, with\n" +
		"the rate at which its own ranks copy messages of that size.")
	for _, op := range []string{"allreduce", "broadcast"} {
		rows := [][]string{{op, "np", "treerun (ms)", "least (ms)", "share", "mix (ms)", "share", "bench", "Alloc (ms)", "share of mix", "best peer (ms)", "share of mix"}}
		for _, np := range b.ranks("sweep") {
			for _, bytes := range b.sizes("sweep", op, np) {
				if bytes >= 16<<20 {
					rows = append(rows, b.limit(op, np, bytes))
				}
			}
		}
		b.Table(rows)
	}
}

// limit is the row of one size.
func (b *writer) limit(op string, np int, bytes int64) []string {
	const ms = 1e-3 // of a microsecond
	mine, alloc := b.cell("sweep", op, np, bytes, "treerun")*ms, b.cell("sweep", op, np, bytes, "treerun-alloc")*ms
	best, _ := b.best("sweep", op, np, bytes)
	best *= ms
	least, mix := bounds(op, np, float64(bytes), b.rate("memcpy", bytes), b.rate("sum_c=a+b", bytes))
	return []string{results.Size(bytes), fmt.Sprint(np), results.Number(mine), results.Number(least), results.Ratio(least / mine), results.Number(mix), results.Ratio(mix / mine),
		results.Ratio(b.ownShare(op, np, bytes)), results.Number(alloc), results.Ratio(mix / alloc), results.Number(best), results.Ratio(mix / best)}
}

// bounds returns the milliseconds of both limits; rates are GB/s of payload.
func bounds(op string, np int, bytes, copying, sum float64) (least, mix float64) {
	const perGB = 1e-6 // ms for a byte at 1 GB/s
	n := float64(np)
	if op == "broadcast" {
		return n * bytes / (2 * copying) * perGB, (n - 1) * bytes / copying * perGB
	}
	return n * bytes / copying * perGB, ((n+1)*bytes/(3*sum) + (n-1)*bytes/copying) * perGB
}

// rate returns what membw found, on a straight line between sizes in
// logarithms; beyond them the nearest.
func (r record) rate(kind string, bytes int64) float64 {
	below, above := math.NaN(), math.NaN()
	var from, to int64
	for _, s := range r.sizes("membw", kind, 2) {
		v := r.cell("membw", kind, 2, s, "machine")
		if s <= bytes {
			below, from = v, s
		}
		if s >= bytes && math.IsNaN(above) {
			above, to = v, s
		}
	}
	switch {
	case math.IsNaN(above) || from == to:
		return below
	case math.IsNaN(below):
		return above
	}
	part := math.Log(float64(bytes)/float64(from)) / math.Log(float64(to)/float64(from))
	return math.Exp(math.Log(below)*(1-part) + math.Log(above)*part)
}

// ownShare is the median of treerun bench's own share.
func (r record) ownShare(op string, np int, bytes int64) float64 {
	var list []float64
	for _, f := range r.of("sweep", op, np, func(f *results.Figure) bool { return f.Bytes == bytes && f.Who == "treerun" && !math.IsNaN(f.Share) }) {
		list = append(list, f.Share)
	}
	return results.Median(list)
}
