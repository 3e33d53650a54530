//go:build cgo && linux

package device

import (
	"fmt"
	"os"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// TestMain runs the tests on a fake host whose streams run late, and whose driver
// refuses the calls that wait for the device: nothing here needs them.
func TestMain(m *testing.M) {
	if os.Getenv(fakegpu.Variable) == "" {
		os.Setenv("TREERUN_FAKE_GPU_JITTER", "20:7")
		os.Setenv("TREERUN_FAKE_GPU_FAIL", "cuStreamSynchronize:1:999,cuCtxSynchronize:1:999,cuEventSynchronize:1:999")
	}
	fakegpu.Main(m, "dgx1v")
}

// TestAgainstOracle runs plans of every kind and shape one after the other, with
// some calls under way at a time, over slots of several numbers and sizes. Among
// eight ranks some devices do not read each other, or none does: those links have their slots in the host's memory,
// and no link is a network link.
func TestAgainstOracle(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 8} {
		for i, h := range []how{
			{slots: 2, slotBytes: 4096, first: 1<<32 - 100},
			{slots: 4, slotBytes: 256 << 10, streams: 2},
			{slots: 8, slotBytes: 16 << 10, devices: (n + 1) / 2, streams: 1},
			{slots: 4, slotBytes: 64 << 10, apart: func(int, int) bool { return true }},
			{slots: 4, slotBytes: 16 << 10, push: func(int, int) bool { return true }},
		} {
			if (n+i)%3 > 0 && h.apart == nil && (h.push == nil || n == 8) && !testutil.Thorough() {
				continue
			}
			name := fmt.Sprintf("%d ranks, %d slots of %d, apart %v, push %v", n, h.slots, h.slotBytes, h.apart != nil,
				h.push != nil)
			t.Run(name, func(t *testing.T) {
				plans := shapes(t, n)
				m := start(t, plans, h)
				for r, g := range m.groups {
					if g.proxy != nil {
						t.Errorf("rank %d has network links within its host", r)
					}
				}
				m.run(mixture(plans, []int{0, 1, 7, 1000}, uint64(i)), 1+3*i)
				m.close()
			})
		}
	}
}

// some returns every step-th plan.
func some(plans []*plan.Plan, step int) (out []*plan.Plan) {
	for i := 0; i < len(plans); i += step {
		out = append(out, plans[i])
	}
	return out
}

// TestHosts has ranks on two and three hosts: links between them are network links.
func TestHosts(t *testing.T) {
	for _, n := range []int{2, 4, 6} {
		plans := some(shapes(t, n), n/2)
		m := start(t, plans, how{slots: 4, slotBytes: 4096, first: 1<<32 - 30, hosts: func(r int) int { return r / 2 }})
		m.run(mixture(plans, []int{0, 1, 1000}, uint64(n)), 3)
		m.close()
	}
}

// TestTypesAndOps reduces numbers of every type with every operation, in chunks
// that do not fill the slots.
func TestTypesAndOps(t *testing.T) {
	plans := []*plan.Plan{fromTrees(t, 4, plan.AllReduce, plan.Split),
		mustPlan(t)(plan.Direct(plan.ReduceScatter, 4, -1, plan.Single))}
	m := start(t, plans, how{slots: 4, slotBytes: 64 << 10})
	var all []testCall
	for dt := range kernel.DeviceDTypes {
		for op := kernel.Sum; op <= kernel.Avg; op++ { // others are not for devices
			if !op.Takes(dt) {
				continue
			}
			for i := range plans {
				all = append(all, testCall{which: i, count: 10007, dtype: dt, op: op, inPlace: op%2 == 0,
					seq: uint64(len(all) + 1), chunk: 1 << 13,
					scale: op == kernel.Sum && dt%2 == 0})
			}
		}
	}
	m.run(all, 5)
	m.close()
}

// TestManyChunks has far more chunks than a stream gets ahead of its device.
func TestManyChunks(t *testing.T) {
	plans := []*plan.Plan{fromTrees(t, 2, plan.AllReduce, plan.Split),
		mustPlan(t)(plan.Direct(plan.AllGather, 2, -1, plan.Single))}
	m := start(t, plans, how{slots: 2, slotBytes: 256, first: 1<<32 - 200})
	m.run([]testCall{
		{which: 0, count: 100003, dtype: kernel.Float32, op: kernel.Sum, inPlace: true, seq: 1},
		{which: 1, count: 100003, dtype: kernel.Uint8, seq: 2},
		{which: 0, count: 100003, dtype: kernel.Int32, op: kernel.Max, inPlace: true, seq: 3},
	}, 2)
	m.close()
}
