package planner

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/topo"
)

// drawGraph draws a connected graph of a few ranks, some with hosts and ports.
func drawGraph(t *rapid.T) *topo.Graph {
	n := rapid.IntRange(2, 7).Draw(t, "ranks")
	g := &topo.Graph{Name: "drawn", Ranks: n}
	rate := rapid.Float64Range(0.5, 50)
	for b := 1; b < n; b++ {
		to := rapid.IntRange(0, b-1).Draw(t, "joined to")
		for a := range b {
			if a == to || rapid.Bool().Draw(t, "link") {
				g.Links = append(g.Links, topo.Link{A: a, B: b, GBytesPerSecond: rate.Draw(t, "rate"),
					LatencyUs: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(topo.MinLatency, 20)).Draw(t, "latency")})
			}
		}
	}
	for p := range rapid.IntRange(0, 2).Draw(t, "ports") {
		k := rapid.IntRange(1, n-1).Draw(t, "ranks of the port")
		port := topo.Port{Name: fmt.Sprintf("port %d", p), GBytesPerSecond: rate.Draw(t, "rate of the port")}
		for v := range k {
			port.Ranks = append(port.Ranks, v)
		}
		g.Ports = append(g.Ports, port)
	}
	return g
}

// Every collective has a plan for every connected graph, whose root may be any rank, and every plan of every algorithm
// has the properties that its JSON promises.
func TestAnyGraph(t *testing.T) {
	file := filepath.Join(t.TempDir(), "drawn.json")
	rapid.Check(t, func(rt *rapid.T) {
		g := drawGraph(rt)
		data, err := g.AppendJSON(nil)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			rt.Fatal(err)
		}
		kind := rapid.SampledFrom([]plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.AllGather,
			plan.ReduceScatter}).Draw(rt, "kind")
		algorithm := rapid.SampledFrom([]string{"", "packing", "multi", "kl", "exact", "chain", "star"}).Draw(rt, "algorithm")
		args := fmt.Sprintf("--graph %s --collective %s --bytes %d", file, kind,
			rapid.SampledFrom([]int{1, 8, 4096, 1 << 20}).Draw(rt, "bytes"))
		if algorithm != "" {
			args += " --algorithm " + algorithm
		}
		root := -1
		if kind.HasRoot() {
			root = rapid.IntRange(0, g.Ranks-1).Draw(rt, "root")
			args += fmt.Sprintf(" --root %d", root)
		}
		if algorithm != "" && !offered(t, args) {
			return
		}
		if err := checkPlan(g, readPlan(t, args), kind, root); err != nil {
			rt.Fatalf("%s: %v", args, err)
		}
	})
}

// Without ports the tight partition proves the bound of an AllReduce by itself,
// and the packing reaches it.
func TestPartitionProvesBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := drawGraph(rt)
		g.Ports = nil
		p, err := planner.New(g, planner.Machine{}, planner.Options{Algorithm: "packing:all"})
		if err != nil {
			rt.Fatal(err)
		}
		d, err := p.Choose(plan.AllReduce, -1, 64<<20)
		if err != nil {
			rt.Fatal(err)
		}
		c, err := p.Site.Certify(plan.AllReduce, -1)
		if err != nil {
			rt.Fatal(err)
		}
		part := make([]int, g.Ranks)
		for i, ranks := range c.Partition {
			for _, v := range ranks {
				part[v] = i
			}
		}
		across := 0.0
		for _, l := range g.Links {
			if part[l.A] != part[l.B] {
				across += l.GBytesPerSecond
			}
		}
		if bound := across / float64(len(c.Partition)-1); math.Abs(bound-c.Rate) > 1e-6*bound {
			rt.Errorf("the partition %v allows %v, the bound is %v", c.Partition, bound, c.Rate)
		}
		if rate := d.Chosen.Candidate.Rate(); rate < 0.99*c.Rate {
			rt.Errorf("the packing has %v of %v", rate, c.Rate)
		}
	})
}
