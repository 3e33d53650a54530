package topo_test

import (
	"math"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// The bounds of large machines are exact. Every tree needs one link less between the parts of a partition than there
// are parts, and a link between two of them takes of both ends: so the most that all parts can send, over 2(parts-1),
// is above every packing. Trees whose load fits the graph, counted here, reach the same rate.
func TestBounds(t *testing.T) {
	between := func(parts, rate float64) float64 { return parts * rate / (2 * (parts - 1)) }
	for name, want := range map[string]float64{
		"dgxa100":    between(8, 300),
		"dgxa100-x2": between(16, 300+25), // between the GPUs; two hosts alone would allow 200
		"dgxa100-x4": between(4, 8*25),    // between the hosts
		"dgxh100":    between(8, 450),
		"dgxh100-x2": between(16, 450+50),
		"dgxh100-x4": between(32, 450+50), // between the hosts it would be 266.7
		"mi250":      between(8, 2*3*50),  // between the MI250: four of a die's seven links are within
		"mi250-x2":   between(16, 2*(3*50+16)),
	} {
		g, _ := topo.Machine(name)
		r, err := pack.Pack(g, pack.BothWays, pack.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Bound.Check(g); err != nil || math.Abs(r.Bound.Rate-want) > 1e-6*want {
			t.Errorf("%s: the bound is %v GB/s, want %v: %v", name, r.Bound.Rate, want, err)
		}
		if rate := carried(t, g, r); rate < 0.99*want {
			t.Errorf("%s: %d trees carry %v GB/s of %v", name, len(r.Trees), rate, want)
		}
	}
}

// carried returns the sum of the rates of trees over links of g. None of these
// may be overbooked, nor a port: a tree takes its rate of both directions.
func carried(t *testing.T, g *topo.Graph, r *pack.Result) (rate float64) {
	t.Helper()
	load := topo.Matrix{N: g.Ranks, V: make([]float64, g.Ranks*g.Ranks)}
	for i, tr := range r.Trees {
		if err := tr.Validate(g.Ranks); err != nil || testutil.MissingLinks(g, tr) >= 0 {
			t.Fatalf("%s: tree %d: %v", g.Name, i, err)
		}
		rate += r.Rates[i]
		for v, p := range tr.Parent {
			if p >= 0 {
				load.Set(v, p, load.At(v, p)+r.Rates[i])
			}
		}
	}
	const slack = 1 + 1e-9
	for _, l := range g.Links {
		if at := load.At(l.A, l.B); at > l.GBytesPerSecond*slack {
			t.Errorf("%s: link %d-%d carries %v of %v GB/s", g.Name, l.A, l.B, at, l.GBytesPerSecond)
		}
	}
	for _, p := range g.Ports {
		in := make([]bool, g.Ranks)
		for _, v := range p.Ranks {
			in[v] = true
		}
		crossing := 0.0
		for _, l := range g.Links {
			if in[l.A] != in[l.B] {
				crossing += load.At(l.A, l.B)
			}
		}
		if crossing > p.GBytesPerSecond*slack {
			t.Errorf("%s: port %s carries %v of %v GB/s", g.Name, p.Name, crossing, p.GBytesPerSecond)
		}
	}
	return rate
}
