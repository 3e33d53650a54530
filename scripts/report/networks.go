package main

import "github.com/treerun/treerun/internal/testutil/nethosts"

// hosts is how many there are in every network of several-hosts and of sparse.
const hosts = 4

// network is one set of hosts, and what is measured on it.
type network struct {
	name string
	nethosts.Network
	groups []group

	// goals are the shares of the bound that treerun is to reach, by collective, for
	// messages of so many bytes and more.
	goals map[string]float64
	from  int64
}

// group is a row of sizes, measured in one job per implementation.
type group struct {
	load
	perHost int
	most    int // measured in so many repetitions only; 0: in all
	who     []string
}

const both = "allreduce,broadcast"

// sized returns the groups for one range of sizes, with so many iterations, or as many
// as fit the time for small messages: AllReduce and Broadcast of all, and AllReduce of
// those with a setting that is known to be better somewhere.
func sized(begin, end, factor int64, iters, warmup, most int) []group {
	l := load{ops: both, begin: begin, end: end, factor: factor, iters: iters, warmup: warmup}
	variants := l
	variants.ops = "allreduce"
	return []group{
		{l, 1, most, []string{"treerun", "openmpi", "mpich", "gloo"}},
		{variants, 1, most, []string{"openmpi:ring", "gloo:hd"}},
	}
}

// networks returns all, in the order of the page.
func networks() []network {
	large := sized(16*mib, 16*mib, 2, 1, 1, 0)
	even := append(append(sized(8, 256*kib, 8, 0, 5, 0), sized(mib, 4*mib, 4, 3, 1, 0)...), large...)
	mesh := append(sized(mib, 4*mib, 4, 2, 1, 0), large...)
	uneven := append(sized(4*mib, 4*mib, 2, 1, 1, 0), sized(16*mib, 16*mib, 2, 1, 0, 2)...)
	open := append(sized(8, 16*mib, 8, 0, 5, 0), sized(64*mib, 64*mib, 2, 3, 1, 0)...)
	two := load{ops: both, begin: 4 * mib, end: 16 * mib, factor: 4, iters: 2, warmup: 1}
	most := map[string]float64{"allreduce": 0.90, "broadcast": 0.90}
	cards := nethosts.Network{Rates: []string{"500mbit"}}
	return []network{
		{"even", cards, even, map[string]float64{"allreduce": 0.95, "broadcast": 0.90}, 4 * mib},
		{"even2", cards, []group{{two, 2, 0, []string{"treerun", "openmpi", "mpich"}}}, nil, 0},
		{"mesh", nethosts.Network{Mesh: [][]string{
			{"-", "800mbit", "400mbit", "200mbit"},
			{"800mbit", "-", "100mbit", "400mbit"},
			{"400mbit", "100mbit", "-", "800mbit"},
			{"200mbit", "400mbit", "800mbit", "-"},
		}}, mesh, most, 16 * mib},
		{"uneven", nethosts.Network{Rates: []string{"800mbit", "400mbit", "200mbit", "100mbit"}}, uneven, most, 4 * mib},
		{"open", nethosts.Network{}, open, nil, 0},
	}
}

// quickly makes all of it short, to test the program.
func quickly(all []network) []network {
	for i := range all {
		for k := range all[i].groups {
			g := &all[i].groups[k]
			g.begin, g.end, g.factor, g.warmup = min(g.begin, 256*kib), min(g.end, 256*kib), 512, 0
			g.iters = min(g.iters, 1)
		}
	}
	return all
}
