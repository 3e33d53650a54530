package planner

import (
	"fmt"
	"io"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/machines"
)

// builders are all the ways to make trees and rings for eight ranks.
func builders() (list []request) {
	for _, name := range []string{"kl", "exact", "multi", "double-binary", "packing", "ring", "star"} {
		list = append(list, request{algorithm: name})
	}
	for _, k := range []int{2, 4, 8} {
		r := request{algorithm: "packing"}
		r.pack.MaxTrees = k
		list = append(list, r)
	}
	return list
}

// BenchmarkEightRanks makes the trees of every builder on a DGX-1V, kl and
// exact from all roots, one after the other: that is to take less than 10 ms.
func BenchmarkEightRanks(b *testing.B) {
	g, _ := machines.Get("dgx1v")
	make := func(b *testing.B, list []request) {
		for b.Loop() {
			for i := range list {
				r := list[i]
				r.g, r.kind, r.root, r.penalty = g, plan.AllReduce, -1, 0.7
				if _, err := r.candidates(); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("all", func(b *testing.B) { make(b, builders()) })
	for _, r := range builders() {
		name := r.algorithm
		if r.pack.MaxTrees > 0 {
			name = fmt.Sprintf("%s-%d", name, r.pack.MaxTrees)
		}
		b.Run(name, func(b *testing.B) { make(b, []request{r}) })
	}
}

// BenchmarkPlanAuto is treerun plan --algorithm auto on eight ranks, all of it
// but the start of the process.
func BenchmarkPlanAuto(b *testing.B) {
	for b.Loop() {
		if err := Plan(io.Discard, []string{"--graph", "dgx1v"}); err != nil {
			b.Fatal(err)
		}
	}
}

// hosts512 is 64 hosts of 8 ranks, every rank with a link to every other one.
func hosts512(ports bool) *topo.Graph {
	g := &topo.Graph{Name: "64 hosts", Ranks: 512}
	for v := range g.Ranks {
		g.Hosts = append(g.Hosts, v/8)
		for u := range v {
			l := topo.Link{A: u, B: v, GBytesPerSecond: 12.5, LatencyUs: 5}
			if u/8 == v/8 {
				l.GBytesPerSecond, l.LatencyUs = 50, 1.5
			}
			g.Links = append(g.Links, l)
		}
	}
	for h := 0; ports && h < 64; h++ {
		p := topo.Port{Name: fmt.Sprintf("nic%d", h), GBytesPerSecond: 12.5}
		for v := range 8 {
			p.Ranks = append(p.Ranks, 8*h+v)
		}
		g.Ports = append(g.Ports, p)
	}
	return g
}

// Benchmark64Hosts plans 512 ranks, with the price and the certificate: less
// than 2 s each.
func Benchmark64Hosts(b *testing.B) {
	for _, ports := range []bool{true, false} {
		g := hosts512(ports)
		for _, name := range []string{"auto", "hierarchical", "double-binary", "packing"} {
			b.Run(fmt.Sprintf("ports=%v/%s", ports, name), func(b *testing.B) {
				for b.Loop() {
					r := request{algorithm: name, g: g, kind: plan.AllReduce, root: -1, penalty: 0.7}
					if _, err := r.printed(64<<20, "text"); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
