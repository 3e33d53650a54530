//go:build cgo && linux

package device

import (
	"math"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
	"github.com/treerun/treerun/topo"
)

// callsOfRanks returns, by rank, the number of the driver's calls that put waits, launches and signals of a collective
// call into streams. All streams are stopped meanwhile, so that no flag has the value that a wait is for.
func (m *machine) callsOfRanks(streams []*cuda.Stream, c Call, bytes int) []int {
	m.t.Helper()
	gate, err := cuda.AllocPinned[uint32](m.devices[0], 1)
	m.must(err)
	m.free = append(m.free, gate.Free)
	count := func() int {
		calls := fakegpu.Calls(m.t)
		return calls["cuLaunchKernel"] + calls["cuStreamBatchMemOp"]
	}
	all := make([]int, len(m.groups))
	for r, s := range streams {
		memory, err := cuda.Alloc[uint8](m.devices[r], bytes)
		m.must(err)
		m.free = append(m.free, memory.Free)
		m.must(s.MemOps([]cuda.MemOp{{Addr: gate.Addr(), Value: 1, Wait: true}}))
		before := count()
		c.In, c.Out = memory.Addr(), memory.Addr()
		m.must(m.groups[r].Enqueue(0, s, &c))
		all[r] = count() - before
	}
	m.each(func(r int) error {
		if r == 0 {
			gate.Host()[0] = 1
		}
		return streams[r].Synchronize(m.t.Context())
	})
	return all
}

// TestPricedCalls: for the plans that are chosen on a DGX-1V, and on one with a broken link, a further chunk takes the
// rank with the most calls of the driver as many as its price counts.
func TestPricedCalls(t *testing.T) {
	whole, _ := topo.Machine("dgx1v")
	one, half := *whole, *whole // without the link 0-1, and without one of the two between 0 and 3
	one.Links = slices.DeleteFunc(slices.Clone(whole.Links), func(l topo.Link) bool { return l.A == 0 && l.B == 1 })
	half.Links = slices.Clone(whole.Links)
	half.Links[slices.IndexFunc(half.Links, func(l topo.Link) bool { return l.A == 0 && l.B == 3 })].GBytesPerSecond /= 2
	for name, g := range map[string]*topo.Graph{"dgx1v": whole, "without 0-1": &one, "half of 0-3": &half} {
		choices, err := planner.New(g, planner.Machine{Device: true}, planner.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []plan.Kind{plan.AllReduce, plan.AllGather, plan.ReduceScatter, plan.Broadcast} {
			chosen, err := choices.PlanFor(kind, 0, 256<<20)
			if err != nil {
				t.Fatal(err)
			}
			made, priced := perChunk(t, g, chosen.Plan)
			t.Logf("%s, %v by %s: %v calls per chunk, %v in the price", name, kind, chosen.Name(), made, priced)
			if math.Abs(made-priced) > 1e-6 {
				t.Error("these differ")
			}
		}
	}
}

// perChunk returns the calls of the driver for a further chunk, on the rank with the most: those that it made for a
// call, and those in the price.
func perChunk(t *testing.T, g *topo.Graph, p *plan.Plan) (made, priced float64) {
	const slots, chunk, callUs = 4, 4 << 10, 1e6 // so that the price is that of the calls
	const few, many = slots + 1, slots + 4       // chunks, the last ones in slots that are used again
	m := start(t, []*plan.Plan{p}, how{slots: slots, slotBytes: chunk, streams: 2})
	defer m.close()
	var streams []*cuda.Stream
	for _, d := range m.devices {
		s, err := d.NewStream()
		m.must(err)
		defer s.Close()
		streams = append(streams, s)
	}
	_, widest := sim.Weigh(p)
	pricer := sim.NewPricer(g, topo.NewWays(g), sim.Machine{Slots: slots, SlotBytes: chunk, CallUs: callUs})
	of := func(chunks int) (calls []int, us float64) {
		bytes := int(float64(chunks*chunk)/widest) &^ (8*plan.Quantum - 1)
		c := Call{Work: kernel.Work{DType: kernel.Float32, Op: kernel.Sum}, Chunks: plan.Chunks{Min: plan.Quantum}}
		c.Header.Count = uint64(bytes / 4)
		if p.Kind.HasParts() {
			c.Header.Count /= uint64(p.Size)
		}
		_, us, err := pricer.LeastUs(p, int64(bytes), c.Chunks)
		m.must(err)
		return m.callsOfRanks(streams, c, bytes), us
	}
	first, from := of(few)
	last, to := of(many)
	for r := range last {
		made = max(made, float64(last[r]-first[r])/(many-few))
	}
	return made, (to - from) / (many - few) / callUs
}
