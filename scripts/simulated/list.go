package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
)

const constantsOf2018 = "Rates of 50, 25 and 10 GB/s are the proposal's; the rest are round figures for CUDA " +
	"and MXNet's engine in 2018, nobody's measurements: see the constants at the end."

// networks are the four of the proposal, by the names of their tables.
var networks = []string{"resnet-50", "vgg-16", "inception-v3", "alexnet"}

var titles = map[string]string{"resnet-50": "ResNet-50", "vgg-16": "VGG-16", "inception-v3": "Inception-v3",
	"alexnet": "AlexNet"}

// list returns the figures in the order in which the page shows them, without curves.
func list() []Figure {
	var all []Figure
	for _, count := range []int{1, 32, 50, 150} {
		f := Figure{
			Name: fmt.Sprintf("push-pull-%d", count), Title: pushPulls(count) + " before a wait on a p3.16xlarge",
			XLabel: "key size (float32)", XUnit: "floats", YLabel: "time (ms)",
			Notes: []string{
				"Figure 2 of the proposal, with the single tree, and one tree from every GPU for an eighth of " +
					"the key each (multi-tree), beside NCCL's ring and the parameter server. Figures 7b and " +
					"7c are the two tree curves for 1 and for 150 push-pulls.",
				constantsOf2018,
			},
		}
		if count == 32 {
			f.Notes[0] = "As figure 2 of the proposal, for the number of push-pulls that its text gives for " +
				"networks of few large keys."
		}
		all = append(all, f)
	}
	all = append(all, Figure{
		Name: "bound-vgg-16", Title: "VGG-16 by the bound above which a key goes along eight trees",
		XLabel: "bound (float32)", XUnit: "floats", YLabel: "time (ms)",
		Notes: []string{
			"Figure 7a of the proposal: 4 images of a GPU. MXNet's default bound is 10M floats.",
			"VGG-16 has 102,760,448 floats in its largest key, so that at a bound of 1,000M floats all keys " +
				"go along one tree.",
			trainingNote,
		},
	})
	for _, kind := range []string{"fp32", "fp16"} {
		all = append(all, Figure{
			Name: "speed-up-" + kind, Title: "Training with trees: speed-up against NCCL's ring, " + kind,
			XLabel: "images of a GPU", XUnit: "images", YLabel: "speed-up (times)", Times: true,
			Notes: []string{
				"Figure 8 of the proposal, whose numbers and axes its text does not have. Keys above 10M " +
					"floats go along eight trees. Table 1 says \"small batch sizes\": judged are those from 4 " +
					"images on, which figure 7 has.",
				trainingNote,
			},
			from: func(tables map[string][][]string) ([]Series, error) { return speedUps(tables, kind) },
		})
	}
	return append(all, scaleFigures()...)
}

const trainingNote = "An iteration is the way forward and the way back, which takes twice as long; the keys " +
	"of a layer are pushed and pulled as soon as its gradient is there, " +
	"the last layer's first, and the iteration ends when all are back. Computing is stated, not measured: 8 " +
	"TFLOP/s in fp32, 16 in fp16, and 30 us for the kernels of every tensor. " +
	"Communication takes nothing away from it, and updating the weights takes no time."

// speedUps returns for every network how many times as long an iteration takes with the
// ring as with trees.
func speedUps(tables map[string][][]string, kind string) ([]Series, error) {
	var all []Series
	for _, name := range networks {
		ways, err := curves(tables[name+"-"+kind])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, Series{titles[name], over(find(ways, "nccl ring"), find(ways, "tree"))})
	}
	return all, nil
}

// find returns the curve of a name, nil for none.
func find(all []Series, name string) []Point {
	if i := slices.IndexFunc(all, func(s Series) bool { return s.Name == name }); i >= 0 {
		return all[i].Points
	}
	return nil
}

// over divides one curve by another.
func over(a, b []Point) []Point {
	quotient := make([]Point, len(a))
	for i, p := range a {
		quotient[i] = Point{p.X, p.Y / b[i].Y}
	}
	return quotient
}

// value is a curve's value at one of its points, NaN at none.
func value(points []Point, x float64) float64 {
	for _, p := range points {
		if p.X == x {
			return p.Y
		}
	}
	return math.NaN()
}

// scaleFigures are those that are not of MXNet's proposal.
func scaleFigures() []Figure {
	all := []Figure{{
		Name: "tree-against-ring", Title: "AllReduce of 8 bytes: trees against a ring",
		XLabel: "GPUs", XUnit: "GPUs", YLabel: "time (us)",
		Notes: []string{
			"Constants are those of NCCL's own cost model for its LL protocol (graph/tuning.cc of 2.30.7) on " +
				"hosts of 6 GPUs.",
			"The original is the announcement of NCCL 2.4, which measured on Summit.",
		},
	}, {
		Name: "many-hosts", Title: "AllReduce on 1,024 hosts of 8 " +
			"GPUs", XLabel: "bytes", XUnit: "bytes", YLabel: "time (us)",
		Notes: []string{
			"The trees are: up to 4 KiB the leaders of the hosts by doubling, above a double binary tree for " +
				"every GPU of a host, each with an eighth of the message, and stars inside hosts.",
			"There are eight rings, one for every card of a host. Both are priced with the constants of " +
				"NCCL's cost model, each with the better of the protocols LL and Simple.",
			"A GPU has 450 GB/s to the others of its host and a card of 50 GB/s. The eight trees, and rings, " +
				"are alike, so that one is priced with an eighth of the rate inside the host.",
		},
	}, {
		Name: "start-messages", Title: "Messages that a rank sends while a communicator starts",
		XLabel: "GPUs", XUnit: "GPUs", YLabel: "messages",
		Notes: []string{
			"A rank connects to those on other hosts that its plans have links to: in two double binary " +
				"trees, by doubling, and in binomial trees from every host for small broadcasts. The leader " +
				"of a host, which is counted, has all of these.",
			"All ranks exchange something 8 times, in ceil(log2 GPUs) messages each; a connection takes 2 " +
				"more from each end.",
		},
	}, {
		Name: "sparse-authors", Title: "Sparse AllReduce, random places: OmniReduce's authors and the simulator",
		XLabel: "blocks that are not zero (%)", XUnit: "% of the blocks", YLabel: "time (ms)",
		Notes: []string{
			"26,214,400 floats in blocks of 256 on 8 workers with cards of 100 Gbit/s; every worker has its " +
				"own random blocks. The authors' times are those with GPU-direct and 8 aggregators on " +
				"machines of their own.",
			"The packets of the very state machines that treerun runs, 64 streams of 16 columns, move over " +
				"simulated cards and buses. Two constants are fitted, so that the first and the last of the " +
				"authors' times come out: 2.5 ms before the first packet, and 16.2 GB/s between a worker's " +
				"card and its tensor, both directions together.",
			"Sparse trees do without the 8 machines for aggregators, so what workers receive and send is " +
				"more: their limit is in the next figures.",
		},
	}}
	for _, places := range []string{"random", "same"} {
		all = append(all, Figure{
			Name: "sparse-" + places, Title: "Sparse AllReduce on the workers alone, " + places + " places",
			XLabel: "blocks that are not zero (%)", XUnit: "% of the blocks", YLabel: "time (ms)",
			Notes: []string{
				"As above, but nothing is counted but cards of 100 Gbit/s in each direction and a latency of " +
					"5 us; zero first blocks are not sent.",
				"The limit counts, for a block that k of the 8 ranks have, k-1 messages until one of them has " +
					"the sum and 7 until all have, spread over all cards; and no less than what a single rank " +
					"must send or receive.",
			},
		})
	}
	return all
}

// pushPulls writes a number of push-pulls.
func pushPulls(count int) string { return numbers.Count(count, "push-pull") }
