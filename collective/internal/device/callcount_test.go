//go:build cgo && linux

package device

import (
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
	"github.com/treerun/treerun/topo/tree"
)

// enqueued lists the driver calls by which the host's cost of a collective call is counted: those that put work into a
// stream.
var enqueued = []string{"cuLaunchKernel", "cuStreamBatchMemOp", "cuEventRecord", "cuStreamWaitEvent"}

// calls makes a call of a plan on all ranks, and returns how many calls of the driver
// a rank made for it: fewer where it was late, and others had come before it.
func (m *machine) calls(which int, streams []*cuda.Stream, c Call) (all int) {
	m.t.Helper()
	count := func() (n int) {
		calls := fakegpu.Calls(m.t)
		for _, name := range enqueued {
			n += calls[name]
		}
		return n
	}
	var memory []cuda.Addr
	for _, d := range m.devices {
		in, err := cuda.Alloc[uint8](d, len(m.groups)*int(c.Header.Count)*c.DType.Size())
		m.must(err)
		memory, m.free = append(memory, in.Addr()), append(m.free, in.Free)
	}
	before := count()
	m.each(func(r int) error {
		mine := c
		mine.In, mine.Out = memory[r], memory[r]
		return m.groups[r].Enqueue(which, streams[r], &mine)
	})
	all = count() - before
	m.each(func(r int) error { return streams[r].Synchronize(m.t.Context()) })
	return (all + len(m.groups) - 1) / len(m.groups)
}

// TestCallsOfDriver counts the driver calls for enqueueing a collective on 8 ranks whose GPUs read each other: a call
// for the waits of a level, one for its signals, and a launch. Rings and trees are those of a DGX-1V, over its NVLinks.
func TestCallsOfDriver(t *testing.T) {
	const ranks, lane = 8, 1 << 10 // elements of a chunk
	must := mustPlan(t)
	g, _ := topo.Machine("dgx1v")
	packed, err := pack.Pack(g, pack.BothWays, pack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	paths, _, err := tree.Rings(g, ranks)
	if err != nil {
		t.Fatal(err)
	}
	var rings [][]int
	for _, p := range paths {
		ring, err := tree.PathOf(p)
		if err != nil {
			t.Fatal(err)
		}
		rings = append(rings, ring)
	}
	for _, k := range []struct {
		plan         *plan.Plan
		devices      int
		one, further int
	}{
		{must(plan.Direct(plan.AllReduce, ranks, -1, plan.Single)), 4, 9, 8},
		{must(plan.Direct(plan.AllReduce, ranks, -1, plan.Split)), 4, 9, 8},
		{must(plan.FromTrees(plan.AllReduce, packed.Trees, nil, plan.Split)), 8, 25, 25},
		{must(plan.FromTrees(plan.AllReduce, packed.Trees, nil, plan.Single)), 8, 25, 25},
		{must(plan.FromTrees(plan.AllReduce, tree.Multi(g), nil, plan.Split)), 8, 20, 20},
		{must(plan.FromRings(plan.AllReduce, rings, nil, 0)), 8, 45, 45},
		{must(plan.FromRings(plan.AllGather, rings, nil, 0)), 8, 24, 24},
		{must(plan.FromRings(plan.ReduceScatter, rings, nil, 0)), 8, 24, 24},
	} {
		m := start(t, []*plan.Plan{k.plan}, how{slots: 4, slotBytes: 64 << 10, devices: k.devices})
		if m.groups[0].proxy != nil || m.groups[0].cfg.Layout.Owned[InHost][0] > 0 {
			t.Fatal("some of these ranks do not read each other's memory")
		}
		var streams []*cuda.Stream
		for _, d := range m.devices {
			s, err := d.NewStream()
			m.must(err)
			streams = append(streams, s)
		}
		of := func(chunks int) int {
			c := Call{Work: kernel.Work{DType: kernel.Float32, Op: kernel.Sum}, Chunks: plan.Chunks{Max: 4 * lane}}
			c.Header.Count = uint64(len(k.plan.Lanes) * lane * chunks)
			if k.plan.Kind.HasParts() {
				c.Header.Count /= ranks
			}
			return m.calls(0, streams, c)
		}
		of(1) // nothing is there yet
		one, few, many := of(1), of(5), of(25)
		further := (many - few) / 20 // and now and then one that queries the progress of the device
		t.Logf("%s of %v: %d calls for one chunk, %d per further chunk index", k.plan.Name, k.plan.Kind, one, further)
		if one > k.one || further > k.further {
			t.Errorf("%s of %v: at most %d and %d calls are meant", k.plan.Name, k.plan.Kind, k.one, k.further)
		}
		for _, s := range streams {
			m.must(s.Close())
		}
		m.close()
	}
}
