package device

import (
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

// TestSlotsByPlan: a plan with slots in the memory of a host has chunks that fit into those, and another one of the
// same ranks has them as large as without.
func TestSlotsByPlan(t *testing.T) {
	one := mustPlan(t)(plan.FromTrees(plan.AllReduce, []topo.Tree{tree.Binomial(8, 0)}, nil, plan.Single))
	all := mustPlan(t)(plan.Direct(plan.AllReduce, 8, -1, plan.Single))
	inDevice := one.Links()
	location := func(src, dst int) Location {
		if slices.ContainsFunc(inDevice, func(k plan.Link) bool { return k.Src == src && k.Dst == dst }) {
			return InDevice
		}
		return InHost
	}
	l, err := NewLayout(Shape{Plans: []*plan.Plan{one, all}, Slots: 4, SlotBytes: 4 << 20, Location: location}, 3)
	if err != nil {
		t.Fatal(err)
	}
	l.Fit(planner.DefaultStagingBytes)
	x := &executor{links: &links{layout: l, states: make([]state, len(l.links))}}
	for i, want := range []int{4 << 20, hostSlot} {
		c := &Call{Chunks: plan.Chunks{Min: 8 << 20}, Work: kernel.Work{DType: kernel.Float32}}
		c.Header.Count = 64 << 20
		x.begin(&l.plans[i], c)
		for _, span := range x.spans {
			if span.Grain != want {
				t.Errorf("%s: chunks of %d bytes, want %d", l.plans[i].plan.Name, span.Grain, want)
			}
		}
	}
}

func mustPlan(t *testing.T) func(*plan.Plan, error) *plan.Plan {
	return func(p *plan.Plan, err error) *plan.Plan {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

// Slots of links to other hosts, of which 64 ranks have thousands, become smaller to limit the memory that a rank pins.
func TestNetworkBytes(t *testing.T) {
	const n, each = 64, 8
	p, err := plan.Direct(plan.AllToAll, n, -1, plan.Single)
	if err != nil {
		t.Fatal(err)
	}
	s := Shape{Plans: []*plan.Plan{p}, Slots: 4, SlotBytes: 1 << 20, Messages: true}
	s.Location = func(src, dst int) Location {
		if src/each != dst/each {
			return Network
		}
		return InDevice
	}
	for _, rank := range []int{0, n - 1} {
		l, err := NewLayout(s, rank)
		if err != nil {
			t.Fatal(err)
		}
		before := l.Owned[Network][rank]
		l.Fit(planner.DefaultStagingBytes)
		if got := l.Owned[Network][rank]; before <= maxNetwork || got > maxNetwork || got < maxNetwork/2 {
			t.Errorf("rank %d pins %d bytes, %d before", rank, got, before)
		}
	}
}
