package figures

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/treerun/treerun/collective/sparse/block"
	"github.com/treerun/treerun/collective/sparse/sparsesim"
)

// The workload of OmniReduce's authors: 26,214,400 floats in blocks of 256, 8
// workers with cards of 100 Gbit/s.
const (
	sparseRanks  = 8
	sparseFloats = 26_214_400
	sparseSize   = 256
	sparseCard   = 12.5 // GB/s
)

// Their results with 8 aggregators and GPU-direct, in ms, by the share of blocks
// that are not zero, which lie at random places on every worker; and NCCL's.
var (
	sparsePercent = []float64{1, 2, 4, 8, 10, 20, 40, 80, 100}
	sparseAuthors = []float64{3.1, 3.9, 5.1, 7.1, 7.8, 10.5, 12.3, 14.4, 15.5}
)

const sparseNCCL = 17.2

// sparseOn is the authors' machine: the two constants beside the card follow from
// the first and the last of their times, and the other seven are what the model
// says. A worker's bus carries what it sends and what it receives.
var sparseOn = sparsesim.Machine{CardGBs: sparseCard, BusGBs: 16.2, LatencyUs: 5, BeginUs: 2500}

// cardsAlone is a machine on which nothing but the cards counts.
var cardsAlone = sparsesim.Machine{CardGBs: sparseCard, LatencyUs: 5}

// sparseWorkload returns blocks at random places, of every rank or the same of all.
func sparseWorkload(percent float64, same bool) *sparsesim.Workload {
	blocks := sparseFloats / sparseSize
	w := &sparsesim.Workload{Blocks: blocks, BlockBytes: sparseSize * 4}
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

// streams that have 1 MiB per worker under way.
func aggregation(onWorkers, compact bool) sparsesim.Aggregation {
	return sparsesim.Aggregation{Aggregators: sparseRanks, OnWorkers: onWorkers, Streams: 64, Columns: 16, Compact: compact}
}

// SparseAgainstAuthors returns the time of OmniReduce and of sparse trees on the
// authors' machines, beside what they measured.
func SparseAgainstAuthors() (Figure, error) {
	f := Figure{
		Name: "sparse-authors", Title: "Sparse AllReduce, random places: OmniReduce's authors and the simulator",
		XLabel: "blocks that are not zero (%)", XUnit: "% of the blocks", YLabel: "time (ms)",
		Series: []Series{{Name: "OmniReduce, measured by its authors"}, {Name: "OmniReduce, simulated"}, {Name: "sparse trees, simulated"}, {Name: "limit of any scheme"}},
		Notes: []string{
			"26,214,400 floats in blocks of 256 on 8 workers with cards of 100 Gbit/s; every worker has its own random blocks. The authors' times are those with GPU-direct and 8 aggregators on machines of their own.",
			"The packets of the very state machines that treerun runs, 64 streams of 16 columns, move over simulated cards and buses. " +
				fmt.Sprintf("Two constants are chosen such that the first and the last of the authors' times come out: %.1f ms before the first packet, and %.1f GB/s between a worker's card and its tensor, both directions together.", sparseOn.BeginUs/1e3, sparseOn.BusGBs),
			"Sparse trees do without the 8 machines for aggregators, so what workers receive and send is more: their limit is in the next figures.",
		},
	}
	for i, percent := range sparsePercent {
		w := sparseWorkload(percent, false)
		omni, err := sparsesim.Omni(w, sparseOn, aggregation(false, false))
		if err != nil {
			return Figure{}, err
		}
		trees, err := sparsesim.Trees(w, sparseOn, sparsesim.Stars(sparseRanks))
		if err != nil {
			return Figure{}, err
		}
		limit, _ := w.LimitUs(sparseCard)
		for k, ms := range []float64{sparseAuthors[i], omni.Us / 1e3, trees.Us / 1e3, limit / 1e3} {
			f.Series[k].Points = append(f.Series[k].Points, Point{percent, ms})
		}
	}
	f.Crossings = crossings(f.Series)
	f.Claims = f.authorsClaims()
	return f, nil
}

func (f *Figure) authorsClaims() []Claim {
	const near = 0.1
	measured, simulated := f.Series[0].Points, f.Series[1].Points
	worst, at := 0.0, 0.0
	for i, p := range measured {
		if d := math.Abs(simulated[i].Y/p.Y - 1); d > worst {
			worst, at = d, p.X
		}
	}
	faster := func(points []Point, percent float64) float64 {
		for _, p := range points {
			if p.X == percent {
				return sparseNCCL / p.Y
			}
		}
		return math.NaN()
	}
	return []Claim{{
		Text:  "OmniReduce: the times of a sparse AllReduce on 8 workers at 100 Gbit/s, at nine densities.",
		Holds: worst < near,
		Found: fmt.Sprintf("The simulated times differ by at most %.0f %%, at %v %% of the blocks.", 100*worst, at),
	}, {
		Text:  "OmniReduce: 5.5 times as fast as NCCL's dense AllReduce at 1 % of the blocks, 2.2 times at 10 %, 1.4 times at 40 %.",
		Holds: math.Abs(faster(simulated, 1)/5.5-1) < near && math.Abs(faster(simulated, 10)/2.2-1) < near && math.Abs(faster(simulated, 40)/1.4-1) < near,
		Found: fmt.Sprintf("%.1f, %.1f and %.1f times as fast as NCCL's measured %v ms.", faster(simulated, 1), faster(simulated, 10), faster(simulated, 40), sparseNCCL),
	}}
}

// SparseOverCards returns the time of treerun's two sparse forms where cards alone
// count and no further machines help, for blocks at random places of every rank or
// at the same places of all.
func SparseOverCards(same bool) (Figure, error) {
	f := Figure{
		Name: "sparse-random", Title: "Sparse AllReduce on the workers alone, random places",
		XLabel: "blocks that are not zero (%)", XUnit: "% of the blocks", YLabel: "time (ms)",
		Series: []Series{{Name: "OmniReduce, aggregators on the workers"}, {Name: "sparse trees"}, {Name: "limit without further machines"}, {Name: "limit of a dense AllReduce"}},
		Notes: []string{
			"As above, but nothing is counted but cards of 100 Gbit/s in each direction and a latency of 5 us; zero first blocks are not sent.",
			"The limit counts, for a block that k of the 8 ranks have, k-1 messages until one of them has the sum and 7 until all have, spread over all cards; and no less than what a single rank must send or receive.",
		},
	}
	if same {
		f.Name, f.Title = "sparse-same", "Sparse AllReduce on the workers alone, same places"
	}
	dense := 2 * float64(sparseRanks-1) / sparseRanks * sparseFloats * 4 / (sparseCard * 1e6) // ms
	for _, percent := range sparsePercent {
		w := sparseWorkload(percent, same)
		omni, err := sparsesim.Omni(w, cardsAlone, aggregation(true, true))
		if err != nil {
			return Figure{}, err
		}
		trees, err := sparsesim.Trees(w, cardsAlone, sparsesim.Stars(sparseRanks))
		if err != nil {
			return Figure{}, err
		}
		_, limit := w.LimitUs(sparseCard)
		for k, ms := range []float64{omni.Us / 1e3, trees.Us / 1e3, limit / 1e3, dense} {
			f.Series[k].Points = append(f.Series[k].Points, Point{percent, ms})
		}
	}
	f.Crossings = crossings(f.Series)
	f.Claims = f.treesClaims(same)
	return f, nil
}

func (f *Figure) treesClaims(same bool) []Claim {
	places := "at random places"
	if same {
		places = "at the same places of all ranks"
	}
	omni, trees, limit := f.Series[0].Points, f.Series[1].Points, f.Series[2].Points
	least, most := math.Inf(1), 0.0
	for i := range trees {
		least = min(least, limit[i].Y/trees[i].Y)
		most = max(most, trees[i].Y/omni[i].Y)
	}
	return []Claim{{
		Text:  fmt.Sprintf("treerun: sparse trees reach 0.80 of the limit at every density, blocks %s.", places),
		Holds: least >= 0.8,
		Found: fmt.Sprintf("They reach %.2f of it or more.", least),
	}, {
		Text:  fmt.Sprintf("treerun: sparse trees are at least as fast as aggregators on the workers, blocks %s.", places),
		Holds: most <= 1,
		Found: fmt.Sprintf("They take at most %.2f times as long.", most),
	}}
}
