//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/testutil/nethosts"
)

const (
	kib = 1 << 10
	mib = 1 << 20

	ownChoice = "treerun" // with its own choice; other names are algorithms
	earlier   = "before"  // an earlier version of treerun, with its own choice
)

// ownAggregators is the form with aggregators on separate ranks.
const ownAggregators = "own"

var mpiNames = []string{"openmpi", "openmpi:ring", "mpich"}

// forms returns the forms that ranks on the given number of hosts can choose, in addition to the dense plan.
func forms(hosts int) []string {
	if hosts == 1 {
		return []string{"trees", "aggregators", "shared"}
	}
	return []string{"trees", "aggregators"}
}

// hosts is the number of hosts in every network of several-hosts and of sparse.
const hosts = 4

var (
	even = nethosts.Network{Rates: []string{"500mbit"}}
	mesh = nethosts.Network{Mesh: [][]string{
		{"-", "800mbit", "400mbit", "200mbit"},
		{"800mbit", "-", "100mbit", "400mbit"},
		{"400mbit", "100mbit", "-", "800mbit"},
		{"200mbit", "400mbit", "800mbit", "-"},
	}}
	uneven = nethosts.Network{Rates: []string{"800mbit", "400mbit", "200mbit", "100mbit"}}
)

// severalHosts returns the networks of the page, in its order. AllReduce is also measured with those settings of the
// peers that are known to be better in some cases.
func (m *run) severalHosts() []site {
	sized := func(begin, end, factor int64, iters, warmup, maxRepeat int) []group {
		l := load{ops: "allreduce", begin: begin, end: end, factor: factor, iters: iters, warmup: warmup, check: true,
			inPlace: "no"}
		if iters == 0 {
			l.iters, l.seconds = 200, 0.1
		}
		broadcast := l
		broadcast.ops, broadcast.inPlace = "broadcast", "yes" // MPI_Bcast always is
		return []group{
			{load: l, maxRepeat: maxRepeat,
				who: []string{ownChoice, "openmpi", "mpich", "gloo", "openmpi:ring", "gloo:hd"}},
			{load: broadcast, maxRepeat: maxRepeat, who: []string{ownChoice, "openmpi", "mpich", "gloo"}},
		}
	}
	large := sized(16*mib, 16*mib, 2, 1, 1, 0)
	null := group{load: load{ops: noCalls}, who: []string{ownChoice, "openmpi", "mpich"}}
	return []site{
		{"even", hosts, 1, even, slices.Concat(sized(8, 256*kib, 8, 0, 5, 0), sized(mib, 4*mib, 4, 3, 1, 0), large), nil},
		{"even2", hosts, 2, even, sized(4*mib, 16*mib, 4, 2, 1, 0), nil},
		{"mesh", hosts, 1, mesh, slices.Concat(sized(mib, 4*mib, 4, 2, 1, 0), large), nil},
		{"uneven", hosts, 1, uneven, slices.Concat(sized(4*mib, 4*mib, 2, 1, 1, 0), sized(16*mib, 16*mib, 2, 1, 0, 2)), nil},
		{"open", hosts, 1, nethosts.Network{}, slices.Concat(sized(8, 16*mib, 8, 0, 5, 0), sized(64*mib, 64*mib, 2, 3, 1, 0),
			[]group{null}), nil},
	}
}

// calls returns the sites of m.sets, each of which has hosts, ranks of each, and programs beside them.
func (m *run) calls() (all []site) {
	m.fact("arguments", "%s", m.args)
	for set := range strings.FieldsSeq(m.sets) {
		s := site{part: set, network: even}
		g := group{load: load{ops: everyCall}, who: []string{ownChoice, "openmpi", "mpich"}}
		_, _ = fmt.Sscanf(set, "%dx%d+%d", &s.hosts, &s.perHost, &g.busy)
		if s.hosts == 1 {
			g.who = append(g.who, "openmpi:core", "openmpi:collsm", "openmpi:nocma", "mpich:gather")
		}
		s.groups = []group{g}
		all = append(all, s)
	}
	return all
}

// pushPulls returns sites for numbers of concurrent AllReduces with eight ranks of this machine.
func (m *run) pushPulls() (all []site) {
	l := load{ops: "allreduce", begin: 4 * kib, end: 4 * mib, factor: 4, iters: 20, warmup: 5, seconds: 0.5,
		inPlace: "no", check: true}
	for _, n := range []string{"1", "50", "150"} {
		g := group{load: l, who: []string{"ring", "star", "kl", "multi"}, flag: "--algorithm",
			more: []string{"--inflight", n}}
		all = append(all, site{part: n, hosts: 1, perHost: 8, groups: []group{g}})
	}
	return all
}

// slowCard returns sites of eight hosts of which one has a card with a share of the others' rate.
func (m *run) slowCard() (all []site) {
	const cardHosts, mbits = 8, 200
	m.fact("Mbit/s of the cards", "%d", mbits)
	l := load{ops: "allreduce", begin: 16 * mib, end: 16 * mib, factor: 2, iters: 3, warmup: 1, inPlace: "no", check: true}
	for _, share := range []float64{1, 0.875, 0.75, 0.5} { // with the first, no card is slow
		rates := make([]string, cardHosts)
		for i := range rates {
			rates[i] = fmt.Sprintf("%dmbit", mbits)
		}
		rates[cardHosts-1] = fmt.Sprintf("%gmbit", mbits*share)
		g := group{load: l, who: []string{ownChoice, "ring"}, flag: "--algorithm"}
		all = append(all, site{part: fmt.Sprint(share), hosts: cardHosts, perHost: 1,
			network: nethosts.Network{Rates: rates}, groups: []group{g}})
	}
	return all
}

// plansHosts returns sites of four and eight hosts with even and with uneven links, for two versions of treerun. The
// last ones have links with a fifth of the rates, which are the limit even if hosts share few cores.
func (m *run) plansHosts() []site {
	m.fact("before", "%s", filepath.Base(m.before))
	small := group{who: []string{ownChoice, earlier}, load: load{ops: "allreduce,allgather,reducescatter,broadcast",
		begin: 16 * mib, end: 16 * mib, factor: 2, iters: 2, warmup: 1, inPlace: "no", check: true}}
	large, slow := small, small
	large.begin, large.end, large.iters, large.check = 64*mib, 64*mib, 1, false
	slow.iters = 1
	one, both, fifth := []group{small}, []group{small, large}, []group{slow}
	slower := func(rate, last string) nethosts.Network {
		return nethosts.Network{Rates: append(slices.Repeat([]string{rate}, 7), last)}
	}
	links := nethosts.Network{Mesh: [][]string{
		{"-", "160mbit", "80mbit", "40mbit"},
		{"160mbit", "-", "20mbit", "80mbit"},
		{"80mbit", "20mbit", "-", "160mbit"},
		{"40mbit", "80mbit", "160mbit", "-"},
	}}
	return []site{
		{"even 4x1", 4, 1, even, both, nil}, {"even 4x2", 4, 2, even, one, nil}, {"mesh 4x1", 4, 1, mesh, one, nil},
		{"even 8x1", 8, 1, even, both, nil}, {"slower 8x1", 8, 1, slower("500mbit", "250mbit"), one, nil},
		{"slower 8x2", 8, 2, slower("500mbit", "250mbit"), one, nil},
		{"even 4x1, a fifth", 4, 1, nethosts.Network{Rates: []string{"100mbit"}}, fifth, nil},
		{"mesh 4x1, a fifth", 4, 1, links, fifth, nil},
		{"even 8x1, a fifth", 8, 1, nethosts.Network{Rates: []string{"100mbit"}}, fifth, nil},
		{"slower 8x2, a fifth", 8, 2, slower("100mbit", "50mbit"), fifth, nil},
	}
}

// sparse returns sets of ranks on several hosts and on this one: "4x2" for four hosts with two each. Dense input runs
// as the dense plan, so forms are measured only at low densities.
func (m *run) sparse() (all []site) {
	const sweep, few, rare = "1,.8,.4,.2,.1,.08,.04,.02,.01", "1,.1,.01", ".1,.01"
	const paperBytes = 104857600 // the message of the paper: 26,214,400 floats
	for _, set := range []struct {
		hosts, perHost int
		densities      string // by price, at random
		others         string // overlaps
		own            string // densities with aggregators on separate ranks
		peers          []string
	}{
		{hosts, 2, sweep, "full,none", ".01", mpiNames}, {hosts, 1, few, "full", "", nil},
		{1, 2, few, "full", "", nil}, {1, 4, few, "full", rare, nil}, {1, 8, few, "full", "", nil},
	} {
		l := load{ops: "allreduce", begin: paperBytes, end: paperBytes, factor: 2, iters: 1, warmup: 1,
			inPlace: "yes"}
		othersDensities := rare
		if set.hosts == 1 {
			l.begin, l.end, l.iters, l.warmup, l.inPlace = 64*mib, 64*mib, 9, 2, "both"
			othersDensities = few
		}
		dense := group{load: l, who: set.peers} // its elements are not compared
		l.check = true
		plain := group{load: l, who: []string{"plain"}}
		l.ops = "sparse-allreduce"
		spread := func(who []string, flag, densities, overlaps string, more ...string) group {
			return group{load: l, who: who, flag: flag, more: append(more, "--density", densities, "--overlap", overlaps)}
		}
		s := site{part: fmt.Sprintf("%dx%d", set.hosts, set.perHost), hosts: set.hosts, perHost: set.perHost, network: even}
		s.groups = []group{plain, spread([]string{"price"}, "", set.densities, "random"),
			spread([]string{"price"}, "", othersDensities, set.others),
			spread(forms(set.hosts), "--form", rare, "random,"+set.others)}
		if set.own != "" {
			l.inPlace = "yes"
			s.groups = append(s.groups, spread([]string{ownAggregators}, "", set.own, "random", "--form",
				"aggregators", "--aggregators", "4"))
		}
		if len(set.peers) > 0 {
			s.groups = append(s.groups, dense)
		}
		all = append(all, s)
	}
	return all
}
