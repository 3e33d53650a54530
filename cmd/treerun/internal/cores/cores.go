// Package cores chooses the cores of a host to which the ranks of a job are bound. Every host of a job calls it for its
// own ranks. Only the packages below cmd/treerun import it.
package cores

import (
	"fmt"
	"slices"
)

// Bind is the choice of cores for the ranks of a job.
type Bind int

// Values of --bind-to.
const (
	Auto Bind = iota // Core where that is quicker: see Plan
	Core             // each rank on its own share of the cores, or on one that it shares
	None             // the kernel chooses
)

// shareOf returns the cores of a rank: adjacent ones, the same number for each rank, and one more for some ranks where
// the division leaves a remainder; or one core that other ranks have too, where there are more ranks than cores.
func shareOf(cores []int, rank, size int) []int {
	n := len(cores)
	if size > n {
		return cores[rank%n : rank%n+1]
	}
	return cores[rank*n/size : (rank+1)*n/size]
}

// Common returns the values of a that b has, too.
func Common(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(v int) bool { return !slices.Contains(b, v) })
}

// Plan plans the binding of this host's ranks: the cores of each, nil for any. near holds, for ranks with a GPU,
// the cores among all that are near it. The ranks are the first of the among ranks that share the cores; the host has
// the given number of NUMA nodes, and lets the job use usable cores.
//
// A rank with a GPU has all cores of its NUMA node, since it has threads that feed it, unless the user wants each rank
// to have a share of its own. Other ranks have a share of all cores in two cases. The first is that every core has
// several ranks, and the same number of them: without binding, the kernel sometimes puts three of four ranks on one of
// two cores and leaves them there for longer than a small job takes: AllReduce of 8 bytes then takes 5.5 us in place of
// 3.2, with eight ranks 18 in place of 8. The second is that there are several nodes, whose memory is not equally near.
// Otherwise the kernel does as well on an idle machine, and better next to other programs: two ranks on two cores next
// to a busy program take 1.8 (4 MiB) to 25 times (8 KiB) as long in the mean when they are bound.
func Plan(bind Bind, all []int, near [][]int, first, among, usable, nodes int) [][]int {
	plan := make([][]int, len(near))
	if bind == None || len(all) == 0 {
		return plan
	}
	divide := dividesCores(bind, all, among, usable, nodes)
	groups := make(map[string][]int) // by the cores near them
	for i, list := range near {
		switch {
		case len(list) > 0 && len(list) < len(all):
			groups[fmt.Sprint(list)] = append(groups[fmt.Sprint(list)], i)
		case divide:
			plan[i] = shareOf(all, first+i, among)
		}
	}
	for _, ranks := range groups {
		for k, i := range ranks {
			plan[i] = near[i]
			if bind == Core {
				plan[i] = shareOf(near[i], k, len(ranks))
			}
		}
	}
	return plan
}

// dividesCores reports whether the cores are divided among the given number of ranks.
func dividesCores(bind Bind, all []int, ranks, usable, nodes int) bool {
	switch {
	case bind == Core:
		return true
	case usable < len(all):
		return false // a quota of CPU time on all cores, as in a container, is not a share of the cores
	case ranks <= len(all):
		return nodes > 1
	}
	return ranks%len(all) == 0 // else the kernel moves ranks about, so that each is on a loaded core for a while only
}
