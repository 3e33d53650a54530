package planner

import (
	"reflect"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// evenGraph is a uniform graph with the figures of shared memory.
func evenGraph(n int) *topo.Graph {
	g := topo.UniformGraph(n)
	for i := range g.Links {
		g.Links[i].GBytesPerSecond, g.Links[i].LatencyUs, g.Links[i].Kind = 5, 1.5, "shm"
	}
	return g
}

// A Planner that makes its graph when it needs it has the plans of one with the graph, of all kinds, sizes and roots,
// and makes the same decision.
func TestUniform(t *testing.T) {
	sizes := []int{1, 2, 3, 5, 8, 17}
	if testutil.Count(0, 1) > 0 {
		sizes = append(sizes, 33, 129)
	}
	for _, n := range sizes {
		for _, m := range []Machine{{}, {Cores: 2}, {Device: true}} {
			if m.Device && n > 8 {
				continue
			}
			g := evenGraph(n)
			want := plannerFor(t, g, m, Options{})
			got, err := NewUniform(n, func() *topo.Graph { return g }, m, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for kind := plan.AllReduce; kind <= plan.ExScan; kind++ {
				for _, bytes := range []int64{0, 8, 5000, 1 << 20, 64 << 20} {
					a, errA := want.PlanFor(kind, n/2, bytes)
					b, errB := got.PlanFor(kind, n/2, bytes)
					if (errA == nil) != (errB == nil) || errA == nil && a.Plan.Digest() != b.Plan.Digest() {
						t.Fatalf("%v of %d bytes on %d ranks, %+v: %v, %v, not the same plan", kind, bytes, n, m, errA, errB)
					}
				}
			}
			a, errA := want.Decide([]plan.Kind{plan.AllReduce, plan.Barrier})
			b, errB := got.Decide([]plan.Kind{plan.AllReduce, plan.Barrier})
			if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
				t.Fatalf("%d ranks: decisions %+v, %v and %+v, %v", n, a, errA, b, errB)
			}
		}
	}
}

// A rank that follows a decision makes the plans of small messages without the links.
func TestUniformFollows(t *testing.T) {
	for _, n := range []int{16, 128, 256} {
		p := plannerOf(t, evenGraph(n), Options{})
		d, err := p.Decide([]plan.Kind{plan.AllReduce, plan.Barrier})
		if err != nil {
			t.Fatal(err)
		}
		no := func() *topo.Graph {
			t.Errorf("%d ranks: the links are needed", n)
			return evenGraph(n)
		}
		q, err := NewUniform(n, no, p.Site.machine, Options{})
		if err == nil {
			err = q.Follow(d)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []plan.Kind{plan.AllReduce, plan.Barrier} {
			a, errA := p.PlanFor(kind, -1, 8)
			b, errB := q.PlanFor(kind, -1, 8)
			if errA != nil || errB != nil || a.Plan.Digest() != b.Plan.Digest() {
				t.Errorf("%v on %d ranks: %v, %v, or not the same plan", kind, n, errA, errB)
			}
		}
	}
}
