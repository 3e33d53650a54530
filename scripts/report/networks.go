package main

import "github.com/treerun/treerun/internal/testutil/nethosts"

// hosts is how many there are in every network of several-hosts and of sparse.
const hosts = 4

// network is one set of hosts, and what is measured on it.
type network struct {
	name string
	nethosts.Network
	groups []group
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
	cards := nethosts.Network{Rates: []string{"500mbit"}}
	return []network{
		{"even", cards, even},
		{"even2", cards, []group{{two, 2, 0, []string{"treerun", "openmpi", "mpich"}}}},
		{"mesh", nethosts.Network{Mesh: [][]string{
			{"-", "800mbit", "400mbit", "200mbit"},
			{"800mbit", "-", "100mbit", "400mbit"},
			{"400mbit", "100mbit", "-", "800mbit"},
			{"200mbit", "400mbit", "800mbit", "-"},
		}}, mesh},
		{"uneven", nethosts.Network{Rates: []string{"800mbit", "400mbit", "200mbit", "100mbit"}}, uneven},
		{"open", nethosts.Network{}, open},
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

// chapter is what the page says of a network.
type chapter struct {
	network, Title, Text string
	goals                map[string]float64 // shares of the bound that treerun is to reach, from 'from' on
	from                 int64
}

var chapters = []chapter{
	{"even", "Even: four hosts, 500 Mbit/s each",
		"A switch with four hosts, one rank each; every host sends and receives at most 500 Mbit/s.\n" +
			"The bound of AllReduce is 2(n-1)/n S / B, that of Broadcast S / B, with the payload B of a card.",
		map[string]float64{"allreduce": 0.95, "broadcast": 0.90}, 4 * mib},
	{"even2", "The same, two ranks on each host", "Eight ranks; the bound is that of one rank per host.", nil, 4 * mib},
	{"mesh", "Mesh: six links of 100 to 800 Mbit/s",
		"Every pair of hosts has a link of its own. The bound of AllReduce is what spanning trees can carry at once (Tutte " +
			"and\n" +
			"Nash-Williams), that of Broadcast the least cut, both with the payload of every link.",
		map[string]float64{"allreduce": 0.90, "broadcast": 0.90}, 16 * mib},
	{"uneven", "Uneven cards: 800, 400, 200 and 100 Mbit/s",
		"A switch; host 0 has the fastest card. No message can be done with faster than the slowest card takes it.",
		map[string]float64{"allreduce": 0.90, "broadcast": 0.90}, 4 * mib},
	{"open", "Unshaped", "Four hosts on a switch without limits: the cores are the limit.", nil, 0},
}
