//go:build linux

package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// compared compares treerun with the peer whose median is least, for one call of one size.
type compared struct {
	view
	Peer          best
	Ratio         float64 // of the peer's median to treerun's
	Slower, Pairs int     // repetitions in which treerun took longer, and all
}

// Compared returns each collective and size, each with its best peer.
func (v view) Compared() (all []compared) {
	for _, op := range v.Ops() {
		for _, size := range op.Sizes() {
			c := compared{view: size, Peer: size.Best(), Ratio: size.Over(ownChoice)}
			peer := size.By(c.Peer.Who).rowsOf()
			for _, r := range size.By(ownChoice).rowsOf() {
				if i := slices.IndexFunc(peer, func(p *row) bool { return p.Rep == r.Rep }); i >= 0 && known(c.Ratio) {
					c.Pairs++
					if r.TimeUs > peer[i].TimeUs {
						c.Slower++
					}
				}
			}
			all = append(all, c)
		}
	}
	return all
}

// Small reports whether a call of this size may take longer than the best peer's.
func (c compared) Small() bool { return c.Bytes < kib }

// Behind reports whether treerun is slower than the rule of the page permits.
func (c compared) Behind() bool {
	if c.Small() {
		return c.Ratio < 1/1.3
	}
	return c.Ratio < 0.97 && 5*c.Slower >= 4*c.Pairs
}

// Mean returns the geometric mean of the ratios.
func (v view) Mean() float64 {
	var list []float64
	for _, c := range v.Compared() {
		list = append(list, c.Ratio)
	}
	return geometric(list)
}

// Wants returns the mean that the rows of a part should reach, 0 for none.
func (v view) Wants() float64 {
	return map[string]float64{"1x2": 1.2, "1x4": 1.6, "2x2": 1.2}[v.Part]
}

// Behind returns the number of rows that break the rule, of the small ones or of the others.
func (v view) Behind(small bool) (n int) {
	for _, c := range v.Compared() {
		if c.Small() == small && c.Behind() {
			n++
		}
	}
	return n
}

// A row is behind by its size, its median, and the pairs.
func TestCalls(t *testing.T) {
	rows := func(op, bytes, own string, peers ...string) (all []string) {
		for i, us := range strings.Fields(own) {
			rep := string(rune('1' + i))
			all = append(all, "1x2 "+rep+" 2 "+op+" "+bytes+" treerun "+us)
			for _, p := range peers {
				all = append(all, "1x2 "+rep+" 2 "+op+" "+bytes+" "+p)
			}
		}
		return all
	}
	page := pageOf(t, "calls", recorded(t, slices.Concat(
		rows("scan", "8", "2.5 2.5 2.5 2.5 2.5", "openmpi 2", "openmpi:core 3", "mpich 9"),
		rows("scan", "1024", "2.5 2.5 2.5 2.5 1", "openmpi 3", "openmpi:core 2"),
		rows("scan", "32768", "2.5 2.5 2.5 1 1", "mpich 2"),
		rows("scan", "1048576", "2.05 2.05 2.05 2.05 2.05", "mpich 2"),
		rows("barrier", "0", "4 4 4 4 4", "mpich 2"),
	)...))
	has(t, page, "| 1x2 | 5 | **0.76** | 1.20 | 1 | 1 |",
		"| barrier | 0 B | 4 | - | 2 | 2 MPICH | **0.50** | 5 of 5 |",
		"| scan | 8 B | 2.5 | 2 | 9 | 2 Open MPI | 0.80 | 5 of 5 |",
		"| scan | 1 KiB | 2.5 | 3 | - | 2 Open MPI, bound | **0.80** | 4 of 5 |",
		"| scan | 32 KiB | 2.5 | - | 2 | 2 MPICH | 0.80 | 3 of 5 |",
		"| scan | 1 MiB | 2.05 | - | 2 | 2 MPICH | 0.98 | 5 of 5 |")
	if c := (compared{Ratio: math.NaN()}); c.Behind() {
		t.Error("a row without a peer is behind")
	}
}
