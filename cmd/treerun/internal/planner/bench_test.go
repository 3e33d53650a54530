package planner

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// BenchmarkPlan runs treerun plan, except the start of the process.
func BenchmarkPlan(b *testing.B) {
	for _, args := range [][]string{{}, {"--algorithm", "packing"}, {"--algorithm", "kl"}, {"--algorithm", "ring"}} {
		b.Run(fmt.Sprint(args), func(b *testing.B) {
			for b.Loop() {
				if err := Plan(io.Discard, append([]string{"--graph", "dgx1v"}, args...)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// hosts512 returns a graph of 64 hosts of 8 ranks, with a link between every two ranks.
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
		for _, flag := range []string{"", "--algorithm=hierarchical", "--algorithm=double-binary", "--algorithm=packing"} {
			args := append([]string{"--graph", fileOf(b, hosts512(ports))}, strings.Fields(flag)...)
			b.Run(fmt.Sprintf("ports=%v/%s", ports, flag), func(b *testing.B) {
				if !ports || flag == "--algorithm=packing" {
					testutil.Long(b, "the others run the same code")
				}
				for b.Loop() {
					if err := Plan(io.Discard, args); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
