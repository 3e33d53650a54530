//go:build cgo && linux

package device

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// TestNothingGrows makes 1000 calls and compares the open resources before and after, and once more when the groups are
// closed.
func TestNothingGrows(t *testing.T) {
	const n = 2
	before, goroutines := cuda.Stats(), runtime.NumGoroutine()
	plans := []*plan.Plan{fromTrees(t, n, plan.AllReduce, plan.Split),
		mustPlan(t)(plan.Leaders(plan.AllReduce, plan.Alone(n), plan.Everybody))}
	m := start(t, plans, how{slots: 2, slotBytes: 4096, hosts: func(r int) int { return r }})
	row := func(calls int) {
		m.each(func(r int) error {
			s, err := m.devices[r].NewStream()
			if err != nil {
				return err
			}
			defer s.Close()
			c := testCall{count: 100, dtype: kernel.Float32, op: kernel.Sum, seq: 1}
			u, err := m.enqueue(r, s, &c, 0)
			if err != nil {
				return err
			}
			if err := m.check(r, s, u); err != nil {
				return err
			}
			if err := u.in.CopyFrom(t.Context(), s, c.gives(r, c.count)); err != nil {
				return err
			}
			for i := 1; i < calls; i++ {
				call := Call{In: u.all[0].Addr(), Out: u.out.Addr(), Work: kernel.Work{DType: kernel.Float32, Op: kernel.Sum}}
				call.Header.Seq, call.Header.Count = uint64(i), 100
				if err := m.groups[r].Enqueue(min(i%8, 1), s, &call); err != nil {
					return err
				}
			}
			if err := m.check(r, s, u); err != nil {
				return err
			}
			for _, a := range u.all {
				if err := a.Free(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	row(10)
	open, files, during := cuda.Stats(), descriptors(t), runtime.NumGoroutine()
	row(1000)
	if after := cuda.Stats(); after != open {
		t.Errorf("open after 10 calls: %+v, after 1000: %+v", open, after)
	}
	if now := descriptors(t); now > files {
		t.Errorf("%d descriptors after 10 calls, %d after 1000", files, now)
	}
	if now := settled(during); now > during {
		t.Errorf("%d goroutines after 10 calls, %d after 1000", during, now)
	}
	m.close()
	if after := cuda.Stats(); after != leftOpen(before, after) {
		t.Errorf("open before %+v, after Close %+v", before, after)
	}
	if now := settled(goroutines); now > goroutines {
		t.Errorf("%d goroutines before, %d after Close", goroutines, now)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestWrongStream: a stream of another device is refused, and nothing has happened.
func TestWrongStream(t *testing.T) {
	plans := []*plan.Plan{fromTrees(t, 2, plan.AllReduce, plan.Single)}
	m := start(t, plans, how{slots: 2, slotBytes: 4096})
	s, err := m.devices[1].NewStream()
	m.must(err)
	if err := m.groups[0].Enqueue(0, s, new(Call)); !errors.Is(err, cuda.ErrWrongDevice) ||
		m.groups[0].Err() != nil {
		t.Errorf("%v, group %v", err, m.groups[0].Err())
	}
	m.must(s.Close())
	m.run([]testCall{{count: 10, dtype: kernel.Int32, op: kernel.Sum, seq: 1}}, 1)
	m.close()
}

// TestOutOfMemory: a group that the device has no room for is an error with the requested size, and no memory stays
// allocated.
func TestOutOfMemory(t *testing.T) {
	devices := someDevices(t, 6, how{})
	before := cuda.Stats()
	plans := []*plan.Plan{mustPlan(t)(plan.DirectHosts(plan.AllReduce, [][]int{{0, 1}, {2, 3}, {4, 5}}, 0, plan.Single))}
	l, err := NewLayout(shapeOf(plans, how{slots: 2, slotBytes: 64 << 20}, devices), 4) // it needs scratch memory
	if err != nil {
		t.Fatal(err)
	}
	flags, err := cuda.AllocPinned[uint8](devices[0], l.FlagBytes())
	if err != nil {
		t.Fatal(err)
	}
	hog, err := cuda.Alloc[uint8](devices[0], 200<<20)
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Config{Layout: l, Device: devices[0], Kernels: &kernels.Set{}, Slots: make([]cuda.Addr, len(l.links)),
		Near: func(int) bool { return false }, Flags: flags.Host(), FlagsAddr: flags.Addr()})
	if err == nil || !strings.Contains(err.Error(), "rank 4") ||
		!strings.Contains(err.Error(), "CUDA_ERROR_OUT_OF_MEMORY") {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(hog.Free(), flags.Free()); err != nil {
		t.Error(err)
	}
	if after := cuda.Stats(); after != leftOpen(before, after) {
		t.Errorf("open before %+v, after %+v", before, after)
	}
}

// settled returns how many goroutines there are, as soon as that is no more than most: those that have ended may take a
// moment to disappear.
func settled(most int) int {
	for end := time.Now().Add(patience); runtime.NumGoroutine() > most && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return runtime.NumGoroutine()
}
