package merge_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/testutil"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/figures.tsv anew")

// The workload of OmniReduce's authors: 26,214,400 floats in blocks of 256, 8
// workers with cards of 100 Gbit/s.
const (
	sparseRanks  = 8
	sparseFloats = 26_214_400
	sparseSize   = 256
	sparseCard   = 12.5 // GB/s
)

// Their results with 8 aggregators and GPU-direct, in ms, by the share of blocks
// that are not zero, which lie at random places on every worker.
var (
	sparsePercent = []float64{1, 2, 4, 8, 10, 20, 40, 80, 100}
	sparseAuthors = []float64{3.1, 3.9, 5.1, 7.1, 7.8, 10.5, 12.3, 14.4, 15.5}
)

// sparseOn is the authors' machine: the bus rate and the time before the first packet follow from the first and the
// last of their times, and the model predicts the other seven. A worker's bus carries its messages in both directions.
var sparseOn = Machine{CardGBs: sparseCard, BusGBs: 16.2, LatencyUs: 5, BeginUs: 2500}

// cardsAlone is a machine in which only the cards limit the rate.
var cardsAlone = Machine{CardGBs: sparseCard, LatencyUs: 5}

// sparseWorkload returns blocks at random places, of every rank or the same of all.
func sparseWorkload(percent float64, same bool) *Workload {
	blocks := sparseFloats / sparseSize
	w := &Workload{Blocks: blocks, BlockBytes: sparseSize * 4}
	for rank := range sparseRanks {
		if same {
			rank = 0
		}
		r := rand.New(rand.NewPCG(uint64(rank), uint64(percent)))
		set := block.NewSet(blocks)
		for b := range blocks {
			if 100*r.Float64() < percent {
				set.Add(b)
			}
		}
		w.Sets = append(w.Sets, set)
	}
	return w
}

// TestFigures computes the simulated figures of sparse AllReduce and compares them with testdata/figures.tsv, from
// which scripts/report makes a page: the times of the authors' machines next to their measurements, then those over
// cards alone, with blocks at random places and at the same places of all ranks, which -short leaves out. With -rewrite
// it writes the file.
func TestFigures(t *testing.T) {
	var b strings.Builder
	b.WriteString("[sparse-authors]\n%\tOmniReduce, measured by its authors\taggregators, simulated\tsparse " +
		"trees, simulated\tlimit of any scheme\n")
	for i, percent := range sparsePercent {
		w := sparseWorkload(percent, false)
		apart, trees := msOf(t, w, sparseOn, starsApart(sparseRanks, sparseRanks)), msOf(t, w, sparseOn, stars(sparseRanks))
		limit, _ := w.LimitUs(sparseCard)
		fmt.Fprintf(&b, "%v\t%v\t%.6g\t%.6g\t%.6g\n", percent, sparseAuthors[i], apart, trees, limit/1e3)
		if apart < limit/1e3 {
			t.Errorf("%v %%: %v ms is less than the limit of %v us", percent, apart, limit)
		}
	}
	dense := 2 * float64(sparseRanks-1) / sparseRanks * sparseFloats * 4 / (sparseCard * 1e6) // ms
	for _, same := range []bool{false, true} {
		if !*rewrite && !testutil.Thorough() {
			break
		}
		fmt.Fprintf(&b, "\n[%s]\n%%\tsparse trees\tlimit without "+
			"further machines\tlimit of a dense AllReduce\n",
			map[bool]string{false: "sparse-random", true: "sparse-same"}[same])
		for _, percent := range sparsePercent {
			w := sparseWorkload(percent, same)
			trees := msOf(t, w, cardsAlone, stars(sparseRanks))
			_, limit := w.LimitUs(sparseCard)
			fmt.Fprintf(&b, "%v\t%.6g\t%.6g\t%.6g\n", percent, trees, limit/1e3, dense)
			if trees < limit/1e3 {
				t.Errorf("%v %%: %v ms is less than the limit of %v us", percent, trees, limit)
			}
		}
	}
	const file = "testdata/figures.tsv"
	if *rewrite {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(want), b.String()) {
		t.Errorf("%s is not what is simulated (%v): look at the difference after a run with -rewrite, and "+
			"write docs/lab/simulated.md anew", file, err)
	}
}

// msOf returns the time of the merge along trees, in ms.
func msOf(t *testing.T, w *Workload, m Machine, f Forest) float64 {
	t.Helper()
	r, err := treesTime(w, m, f)
	if err != nil {
		t.Fatal(err)
	}
	return r.Us / 1e3
}
