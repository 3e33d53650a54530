package main

import "github.com/treerun/treerun/internal/testutil/nethosts"

// hosts is how many there are in every network.
const hosts = 4

// network is one set of hosts, and what is measured on it.
type network struct {
	name string
	nethosts.Network
	groups []group
	pairs  [][2]int // between which the rate of one plain flow is measured; nil: all of a mesh
}

// group is a row of sizes, measured in one job per implementation.
type group struct {
	begin, end, factor int64
	iters, warmup      int // iters 0: as many as fit the time for small messages
	perHost            int
	least              int // measured in so many repetitions only; 0: in all
	ops                string
	who                []string
}

// The implementations: all, and those with a setting for AllReduce that is known
// to be better somewhere.
var (
	everybody = []string{"treerun", "openmpi", "mpich", "gloo"}
	variants  = []string{"openmpi:ring", "gloo:hd"}
)

const (
	both = "allreduce,broadcast"

	kib = 1 << 10
	mib = 1 << 20
)

// sized returns the groups for one range of sizes: AllReduce and Broadcast of
// all, and AllReduce of the variants.
func sized(g group) []group {
	g.perHost = 1
	g.ops, g.who = both, everybody
	v := g
	v.ops, v.who = "allreduce", variants
	return []group{g, v}
}

// networks returns all, in the order of the page.
func networks() []network {
	var even, mesh, uneven, open []group
	for _, g := range []group{
		{begin: 8, end: 256 * kib, factor: 8}, {begin: mib, end: 4 * mib, factor: 4, iters: 3, warmup: 1},
		{begin: 16 * mib, end: 16 * mib, factor: 2, iters: 1, warmup: 1},
	} {
		even = append(even, sized(g)...)
	}
	mesh = append(sized(group{begin: mib, end: 4 * mib, factor: 4, iters: 2, warmup: 1}), sized(group{begin: 16 * mib, end: 16 * mib, factor: 2, iters: 1, warmup: 1})...)
	uneven = append(sized(group{begin: 4 * mib, end: 4 * mib, factor: 2, iters: 1, warmup: 1}), sized(group{begin: 16 * mib, end: 16 * mib, factor: 2, iters: 1, least: 2})...)
	open = append(sized(group{begin: 8, end: 16 * mib, factor: 8}), sized(group{begin: 64 * mib, end: 64 * mib, factor: 2, iters: 3, warmup: 1})...)
	return []network{
		{name: "even", Network: nethosts.Network{Rates: []string{"500mbit"}}, groups: even, pairs: [][2]int{{0, 1}}},
		{name: "even2", Network: nethosts.Network{Rates: []string{"500mbit"}}, groups: []group{
			{begin: 4 * mib, end: 16 * mib, factor: 4, iters: 2, warmup: 1, perHost: 2, ops: both, who: []string{"treerun", "openmpi", "mpich"}},
		}, pairs: [][2]int{{0, 1}}},
		{name: "mesh", Network: nethosts.Network{Mesh: [][]string{
			{"-", "800mbit", "400mbit", "200mbit"},
			{"800mbit", "-", "100mbit", "400mbit"},
			{"400mbit", "100mbit", "-", "800mbit"},
			{"200mbit", "400mbit", "800mbit", "-"},
		}}, groups: mesh},
		{name: "uneven", Network: nethosts.Network{Rates: []string{"800mbit", "400mbit", "200mbit", "100mbit"}}, groups: uneven, pairs: [][2]int{{0, 1}, {0, 2}, {0, 3}, {1, 0}}},
		{name: "open", groups: open, pairs: [][2]int{{0, 1}}},
	}
}

// quickly makes all of it short, to test the program.
func quickly(all []network) []network {
	for i := range all {
		for k := range all[i].groups {
			g := &all[i].groups[k]
			g.begin, g.end, g.factor, g.warmup = min(g.begin, 256*kib), min(g.end, 256*kib), 512, 0
			if g.iters > 0 {
				g.iters = 1
			}
		}
	}
	return all
}
