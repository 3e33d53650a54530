package main

import "fmt"

const constantsOf2018 = "Rates of 50, 25 and 10 GB/s are the proposal's; the rest are round figures for CUDA and MXNet's engine in 2018, see sim.MXNet."

// list returns the figures in the order in which the page shows them, without curves.
func list() []Figure {
	var all []Figure
	for _, count := range []int{1, 50, 150} {
		all = append(all, Figure{
			Name: fmt.Sprintf("push-pull-%d", count), Title: pushPulls(count) + " before a wait on a p3.16xlarge",
			XLabel: "key size (float32)", XUnit: "floats", YLabel: "time (ms)",
			Notes: []string{
				"Figure 2 of the proposal, with the tree, which that figure does not have, beside NCCL's ring and the parameter server.",
				"The proposal gives no size at which the curves cross. It says that networks with over 157 push-pulls on keys of at most 2M floats are faster with the parameter server; most keys of such a network are far smaller than 2M.",
				constantsOf2018,
			},
			judge: func(f *Figure) []Claim { return f.pushPullClaims(count) },
		})
	}
	for _, count := range []int{1, 150} {
		all = append(all, Figure{
			Name: fmt.Sprintf("array-bound-%d", count), Title: fmt.Sprintf("One tree against eight, %s on a p3.16xlarge", pushPulls(count)),
			XLabel: "key size (float32)", XUnit: "floats", YLabel: "time (ms)",
			Notes: []string{
				"Figure 7 of the proposal, parts b and c: so many push-pulls before a wait. Part a, the time of VGG-16 by the bound, is not simulated: that takes the network. MXNet's default bound is 10M floats.",
				constantsOf2018,
			},
			judge: func(f *Figure) []Claim { return f.arrayBoundClaims(count) },
		})
	}
	all = append(all, Figure{
		Name: "tree-against-ring", Title: "AllReduce of 8 bytes: trees against a ring",
		XLabel: "GPUs", XUnit: "GPUs", YLabel: "time (us)",
		Notes: []string{
			"Constants are those of NCCL's own cost model for its LL protocol (graph/tuning.cc of 2.30.7) on hosts of 6 GPUs.",
			"The original is the announcement of NCCL 2.4, which measured on Summit.",
		},
		judge: (*Figure).scaleClaims,
	}, Figure{
		Name: "many-hosts", Title: "AllReduce on 1,024 hosts of 8 GPUs", XLabel: "bytes", XUnit: "bytes", YLabel: "time (us)",
		Notes: []string{
			"Plans are those of treerun for many hosts: up to 4 KiB the leaders of the hosts by doubling, above a double binary tree for every GPU of a host, each with an eighth of the message, and stars inside hosts.",
			"There are eight rings, one for every card of a host. Both are priced with the constants of NCCL's cost model, each with the better of the protocols LL and Simple.",
			"A GPU has 450 GB/s to the others of its host and a card of 50 GB/s. The eight trees, and rings, are alike, so that one is priced with an eighth of the rate inside the host.",
		},
		judge: (*Figure).hostsClaims,
	}, Figure{
		Name: "start-messages", Title: "Messages that a rank sends while a communicator starts",
		XLabel: "GPUs", XUnit: "GPUs", YLabel: "messages",
		Notes: []string{
			"A rank connects to those on other hosts that its plans have links to: in two double binary trees, by doubling, and in binomial trees from every host for small broadcasts. The leader of a host, which is counted, has all of these.",
			"All ranks exchange something 8 times, in ceil(log2 GPUs) messages each; a connection takes 2 more from each end.",
		},
		judge: (*Figure).startClaims,
	}, Figure{
		Name: "sparse-authors", Title: "Sparse AllReduce, random places: OmniReduce's authors and the simulator",
		XLabel: "blocks that are not zero (%)", XUnit: "% of the blocks", YLabel: "time (ms)",
		Notes: []string{
			"26,214,400 floats in blocks of 256 on 8 workers with cards of 100 Gbit/s; every worker has its own random blocks. The authors' times are those with GPU-direct and 8 aggregators on machines of their own.",
			"The packets of the very state machines that treerun runs, 64 streams of 16 columns, move over simulated cards and buses. Two constants are chosen such that the first and the last of the authors' times come out: 2.5 ms before the first packet, and 16.2 GB/s between a worker's card and its tensor, both directions together.",
			"Sparse trees do without the 8 machines for aggregators, so what workers receive and send is more: their limit is in the next figures.",
		},
		judge: (*Figure).authorsClaims,
	})
	for _, places := range []string{"at random places", "at the same places of all ranks"} {
		short := map[bool]string{true: "random", false: "same"}[places == "at random places"]
		all = append(all, Figure{
			Name: "sparse-" + short, Title: "Sparse AllReduce on the workers alone, " + short + " places",
			XLabel: "blocks that are not zero (%)", XUnit: "% of the blocks", YLabel: "time (ms)",
			Notes: []string{
				"As above, but nothing is counted but cards of 100 Gbit/s in each direction and a latency of 5 us; zero first blocks are not sent.",
				"The limit counts, for a block that k of the 8 ranks have, k-1 messages until one of them has the sum and 7 until all have, spread over all cards; and no less than what a single rank must send or receive.",
			},
			judge: func(f *Figure) []Claim { return f.treesClaims(places) },
		})
	}
	return all
}
