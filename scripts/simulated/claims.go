package main

import (
	"fmt"
	"math"
	"strings"
)

// Verdicts of what the documents show.
const (
	reproduced = "reproduced"
	differs    = "**differs**"
	fitted     = "fitted"
	cannot     = "**cannot be**"
	drawing    = "a drawing"
)

// Row is a figure, a table or a sentence of a document.
type Row struct {
	What    string // "Figure 2a"
	Says    string // the document's words, shortened
	Verdict string
	Found   string // what is found here, and why it differs
}

// Document is one design document, or treerun's own goals.
type Document struct {
	Title string
	Rows  []Row
}

// results are all figures and tables by name.
type results struct {
	figures map[string]*Figure
	tables  map[string][][]string
}

// documents judges every figure and table of every design document.
func (r *results) documents() ([]Document, error) {
	proposal, err := r.proposal()
	if err != nil {
		return nil, err
	}
	return []Document{
		{"MXNet's proposal of tree communication (2018), two versions of one page", proposal},
		{"The patent on AllReduce along several spanning trees", []Row{
			{"Figures 1 and 2", "A reduction goes up a spanning tree hop by hop, and a broadcast down it.", drawing,
				"Every plan of a tree is that (`plan.FromTrees`), and `plan.Verify` proves it."},
			{"Results", "None: the text that we have shows no rate, no network and no table.", cannot,
				"There is nothing to compare with. The algorithm itself is compared with the text step by " +
					"step (`TestGreedyIsThePatent`), and what it reaches stands in [packing.md](packing.md)."},
		}},
		{"The summary of OmniReduce, and the times that its authors published elsewhere", r.omniReduce()},
		{"The note on NCCL's double binary trees, and the announcement of NCCL 2.4", r.doubleBinary()},
	}, nil
}

func (r *results) figure(name string) *Figure { return r.figures[name] }

// verdict is reproduced or differs.
func verdict(holds bool) string {
	if holds {
		return reproduced
	}
	return differs
}

// doubleBinary judges the note on NCCL's trees.
func (r *results) doubleBinary() []Row {
	const announced = 180
	f := r.figure("tree-against-ring")
	trees, ring := f.points("double binary trees"), f.points("ring")
	last := len(trees) - 1
	least, most := math.Inf(1), 0.0
	for i := 4; i <= last; i++ { // hosts double, from two of them on
		more := trees[i].Y - trees[i-1].Y
		least, most = min(least, more), max(most, more)
	}
	times := ring[last].Y / trees[last].Y
	return []Row{
		{"Printed table for 12 ranks", "Parents and children of every rank, the second tree shifted.", reproduced,
			"All rows (`TestDoubleBinaryPrintedTables`)."},
		{"Printed table for 13 ranks", "The same, the second tree mirrored.", reproduced,
			"All rows but the parent 13 of rank 5, which is no rank of 13: a misprint for 0, whose child 5 is."},
		{"Drawing for 13 ranks, and its correction", "The second tree mirrored; 11 and not 10 stands below 9.",
			reproduced, "As corrected; the first drawing is the note's own example of an error."},
		{"Drawing for 12 ranks, and its correction", "The second tree shifted; rank 1 and not 0 is its root.",
			reproduced, "As corrected."},
		{"Drawing of a shift for 13 ranks", "Rank 0 is the root of both trees, 1 stands below 9.", differs,
			"A shift by one makes rank 1 the root and puts 0 below 9: the drawing has the two exchanged. " +
				"Today's NCCL and treerun shift odd numbers of ranks in this way."},
		{"Drawing of a mirror for 12 ranks", "Odd ranks are leaves of both trees, so even numbers cannot be " +
			"mirrored.", differs,
			"True of r -> 12-r, which the note draws. r -> 11-r has odd ranks inside the second tree: what " +
				"today's NCCL and treerun do."},
		{"NCCL 2.4, not in the note", "The latency of trees grows with the logarithm of the number of GPUs, " +
			"that of a ring with the number.", verdict(most-least < 0.05*most),
			fmt.Sprintf("Twice the hosts cost trees %.3g us more, every time; the ring takes %.3g times as "+
				"long at %s GPUs as at half of them.",
				most, ring[last].Y/ring[last-1].Y, Grouped(ring[last].X))},
		{"NCCL 2.4, not in the note", fmt.Sprintf("Up to %d times lower latency at 24,576 GPUs of Summit, "+
			"measured.", announced), verdict(math.Abs(times-announced) < 0.1*announced),
			fmt.Sprintf("%.3g times, which is %.2g times as much: the model counts latencies alone, and those "+
				"of the network as equal everywhere.", times, times/announced)},
	}
}

// omniReduce judges what the authors of OmniReduce measured. The first and the last of
// their times have fixed two constants.
func (r *results) omniReduce() []Row {
	const (
		near      = 0.1
		ncclDense = 17.2 // ms, measured by the authors
	)
	f := r.figure("sparse-authors")
	measured, simulated := f.Series[0].Points, f.Series[1].Points
	worst, at := 0.0, 0.0
	for i, p := range measured {
		if d := math.Abs(simulated[i].Y/p.Y - 1); d > worst && i > 0 && i < len(measured)-1 {
			worst, at = d, p.X
		}
	}
	rows := []Row{
		{"Screenshot of the algorithm", "Algorithm 1 of worker and aggregator.", reproduced, "Run here packet " +
			"by packet (`TestTraces`, `TestCases` of `sparse/omni`)."},
		{"Drawing of block fusion", "A tensor as a matrix of blocks, a packet with a block of each column.",
			drawing, "Columns are so (`columns_test.go` of `sparse/omni`); the drawing itself is not in the text."},
		{"Text", "The gradients of DeepLight and LSTM are over 94 % zero.", cannot, "Neither model nor its " +
			"data is here. Random and equal places of non-zero blocks are simulated at nine densities."},
		{"The authors' figure, not in the summary", "Times of a sparse AllReduce on 8 workers at 100 Gbit/s, " +
			"1 and 100 % of the blocks.", fitted, "Two constants are chosen so that these two times come out: " +
			"they prove nothing."},
		{"The same, the seven densities between", "2 to 80 % of the blocks.", verdict(worst < near),
			fmt.Sprintf("The simulated times differ by at most %.0f %%, at %v %% of the blocks.", 100*worst, at)},
	}
	for _, c := range []struct{ percent, times float64 }{{1, 5.5}, {10, 2.2}, {40, 1.4}} {
		got := ncclDense / value(simulated, c.percent)
		v := verdict(math.Abs(got/c.times-1) < near)
		found := fmt.Sprintf("%.1f times as fast as NCCL's measured %v ms.", got, ncclDense)
		if c.percent == 1 {
			v, found = fitted, found+" The time at 1 % is one of the two that fix the constants."
		}
		rows = append(rows, Row{"The authors' result, not in the summary", fmt.Sprintf("%v times as fast as "+
			"NCCL's dense AllReduce at %v %% of the blocks.", c.times, c.percent), v, found})
	}
	return rows
}

// goals judges what treerun wants itself.
func (r *results) goals() []Row {
	hosts, start := r.figure("many-hosts"), r.figure("start-messages")
	times := over(hosts.points("rings"), hosts.points("trees between hosts"))
	small, large := times[0].Y, times[len(times)-1].Y
	p := start.Series[0].Points
	last := len(p) - 1
	steps := 0.0 // the most that twice the hosts cost
	for i := 1; i <= last; i++ {
		steps = max(steps, p[i].Y-p[i-1].Y)
	}
	rows := []Row{
		{"1,024 hosts of 8 GPUs", "Trees are far ahead of rings for small messages, and nowhere far behind.",
			met(small > 100 && large > 0.8),
			fmt.Sprintf("The rings take %.3g times as long for 8 bytes and %.2g times for 1 GiB.", small, large)},
		{"Start of a job", "What a rank sends grows with the logarithm of the number of ranks.",
			met(steps <= 24 && p[last].Y < 200),
			fmt.Sprintf("Twice the hosts cost at most %.3g messages more; %s ranks send at most %.3g each.",
				steps, Grouped(p[last].X), p[last].Y)},
	}
	for _, places := range []string{"random", "same"} {
		f := r.figure("sparse-" + places)
		omni, trees, limit := f.Series[0].Points, f.Series[1].Points, f.Series[2].Points
		least, most := math.Inf(1), 0.0
		for i := range trees {
			least, most = min(least, limit[i].Y/trees[i].Y), max(most, trees[i].Y/omni[i].Y)
		}
		rows = append(rows,
			Row{"Sparse trees, " + places + " places", "They reach 0.80 of the limit at every density.",
				met(least >= 0.8), fmt.Sprintf("%.2f of it or more.", least)},
			Row{"Sparse trees, " + places + " places", "They are at least as fast as aggregators on the workers.",
				met(most <= 1), fmt.Sprintf("They take at most %.2f times as long.", most)})
	}
	return rows
}

func met(holds bool) string {
	if holds {
		return "met"
	}
	return "**missed**"
}

// joined writes "a, b and c".
func joined(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
