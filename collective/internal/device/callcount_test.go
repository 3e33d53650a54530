//go:build cgo

package device

import (
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
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
		in, err := cuda.Alloc[uint8](d, int(c.Header.Count)*c.DType.Size())
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

// TestCallsOfDriver counts the driver calls for enqueueing an AllReduce on 8 GPUs that read each other.
func TestCallsOfDriver(t *testing.T) {
	const ranks, lane = 8, 1 << 10 // elements of a chunk
	for form, most := range map[plan.Form]struct{ one, further int }{plan.Single: {9, 8}, plan.Split: {9, 8}} {
		plans := []*plan.Plan{mustPlan(t)(plan.Direct(plan.AllReduce, ranks, -1, form))}
		m := start(t, plans, how{slots: 4, slotBytes: 64 << 10, devices: 4})
		if m.groups[0].proxy != nil {
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
			c.Header.Count = uint64(ranks * lane * chunks)
			return m.calls(0, streams, c)
		}
		of(1) // nothing is there yet
		one, few, many := of(1), of(5), of(25)
		further := (many - few) / 20 // and now and then one that queries the progress of the device
		t.Logf("%s: %d calls for one chunk, %d per further chunk index", plans[0].Name, one, further)
		if one > most.one || further > most.further {
			t.Errorf("%s: at most %d and %d calls are meant", plans[0].Name, most.one, most.further)
		}
		for _, s := range streams {
			m.must(s.Close())
		}
		m.close()
	}
}
