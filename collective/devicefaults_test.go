//go:build cgo && linux

package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
	"github.com/treerun/treerun/topo"
)

// Invalid arguments are errors that name the rank, the device and the call; nothing is sent, and the communicator stays
// usable.
func TestDeviceArguments(t *testing.T) {
	if !asProcesses(t, 2, "dgx1v") {
		return
	}
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) (err error) {
		ctx := t.Context()
		other, err := gpuOf(c.Rank() + 2)
		if err != nil {
			return err
		}
		elsewhere, err := other.NewStream()
		if err != nil {
			return err
		}
		closed, err := s.Device().NewStream()
		if err = errors.Join(err, closed.Close()); err != nil {
			return err
		}
		var keep []cuda.Slice[float32]
		alloc := func(d *cuda.Device, n int) cuda.Slice[float32] {
			x, e := cuda.Alloc[float32](d, n)
			err = errors.Join(err, e)
			keep = append(keep, x)
			return x
		}
		x, y, far, freed := alloc(s.Device(), 100), alloc(s.Device(), 200), alloc(other, 100), alloc(s.Device(), 100)
		if err = errors.Join(err, freed.Free()); err != nil {
			return err
		}
		defer func() {
			for _, x := range keep {
				err = errors.Join(err, x.Free())
			}
			err = errors.Join(err, elsewhere.Close())
		}()
		// The first call opens the devices.
		if err := errors.Join(AllReduceDevice(ctx, c, s, x, x, Sum), c.SyncDevice(ctx, s)); err != nil {
			return err
		}
		for name, w := range map[string]struct {
			call func() error
			want string
		}{
			"no stream": {func() error { return AllReduceDevice(ctx, c, nil, x, x, Sum) }, "no stream"},
			"a closed stream": {func() error { return AllReduceDevice(ctx, c, closed, x, x, Sum) },
				"stream on " + s.Device().String() + " was closed"},
			"another device":     {func() error { return AllReduceDevice(ctx, c, s, far, far, Sum) }, other.UUID()},
			"a stream elsewhere": {func() error { return AllReduceDevice(ctx, c, elsewhere, far, far, Sum) }, s.Device().UUID()},
			"freed":              {func() error { return BroadcastDevice(ctx, c, s, freed, freed, 0) }, "freed"},
			"lengths": {func() error { return AllReduceDevice(ctx, c, s, x, y, Sum) },
				"send has 100 elements, recv 200"},
			"parts": {func() error { return AllGatherDevice(ctx, c, s, x, x) }, "want 2 parts"},
			"in part": {func() error { return AllReduceDevice(ctx, c, s, y.Slice(0, 100), y.Slice(50, 150), Sum) },
				"overlap"},
			"root":      {func() error { return ReduceDevice(ctx, c, s, x, x, Sum, 2) }, "root 2 of 2"},
			"operation": {func() error { return AllReduceDevice(ctx, c, s, x, x, Op(200)) }, "no such operation"},
			"elements": {func() error { return AllReduceDevice(ctx, c, s, cuda.Slice[int16]{}, cuda.Slice[int16]{}, Sum) },
				"device calls have no elements of int16"},
		} {
			err := w.call()
			if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), w.want) ||
				!strings.Contains(err.Error(), fmt.Sprintf("Device on rank %d", c.Rank())) {
				return fmt.Errorf("%s: %v, want %q", name, err, w.want)
			}
			if name == "freed" && !errors.Is(err, cuda.ErrFreed) {
				return fmt.Errorf("freed: %v", err)
			}
		}
		if err := c.SyncDevice(ctx, nil); !errors.Is(err, ErrArgument) {
			return fmt.Errorf("SyncDevice of no stream: %v", err)
		}
		if err := c.SyncDevice(ctx, closed); !errors.Is(err, ErrArgument) || !errors.Is(err, cuda.ErrClosed) {
			return fmt.Errorf("SyncDevice of a closed stream: %v", err)
		}
		return errors.Join(AllReduceDevice(ctx, c, s, x, x, Sum), c.SyncDevice(ctx, s), Barrier(ctx, c))
	})
}

// Host memory in place of device memory is refused before any call of a communicator.
func TestHostMemoryIsNoDeviceMemory(t *testing.T) {
	if !asProcesses(t, 1, "dgx1v/0") {
		return
	}
	dev, err := gpuOf(0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := cuda.AllocPinned[float32](dev, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	if _, err := cuda.Wrap[float32](dev, p.Addr(), 100); !errors.Is(err, cuda.ErrNotDeviceMemory) {
		t.Errorf("pinned memory of the host: %v", err)
	}
}

// Whatever call of the driver fails while the devices are opened, in whichever step, on either rank, the device call is
// an ErrDevice on both, which names the rank and the driver's call; no allocation remains on the devices, the
// communicator works on the host, and the next device call opens them. Some calls may fail without an error, because
// there is an alternative.
func TestOpeningFails(t *testing.T) {
	type failure struct {
		call string
		n    int // that call
	}
	all := []failure{{"cuModuleLoadDataEx", 1}, // of meet
		{"cuMemAlloc", 3},                                   // of survey
		{"cuMemFree", 3},                                    // of tryPeers
		{"cuMemAlloc", 5},                                   // of share
		{"cuMemHostRegister", 1}, {"cuIpcOpenMemHandle", 3}, // of attach
		{"cuStreamCreateWithPriority", 8}, {"cuEventCreate", 5}, {"cuMemHostAlloc", 2}} // of start
	if testutil.Thorough() {
		for call, n := range map[string]int{"cuMemAlloc": 6, "cuMemHostRegister": 3, "cuStreamCreateWithPriority": 8,
			"cuEventCreate": 4} {
			for k := range n {
				all = append(all, failure{call, k + 1})
			}
		}
	}
	for _, f := range all {
		if f.call == "cuStreamCreateWithPriority" && f.n == 1 {
			continue // the test's own
		}
		t.Run(fmt.Sprintf("%s-%d", f.call, f.n), func(t *testing.T) {
			env := []string{fmt.Sprintf("TREERUN_FAKE_GPU_FAIL=%s:%d@1", f.call, f.n)}
			if f.call == "cuMemHostRegister" { // of the block, and of the slots in it
				env = append(env, noPeers...)
			}
			if asProcesses(t, 2, "dgx1v", env...) {
				openingFails(t, f.call)
			}
		})
	}
}

// openingFails is a rank of TestOpeningFails: rank 1 has the GPU that fails.
func openingFails(t *testing.T, call string) {
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) (err error) {
		ctx := t.Context()
		if err = BarrierDevice(ctx, c, s); err == nil {
			err = c.SyncDevice(ctx, s)
		}
		if err == nil {
			t.Log("there was another way")
			return nil
		}
		var failed *RankError
		if !errors.As(err, &failed) || failed.Rank != 1 || !errors.Is(err, ErrDevice) ||
			!strings.Contains(err.Error(), call) || !strings.Contains(err.Error(), "BarrierDevice") {
			return fmt.Errorf("%s fails: %v", call, err)
		}
		var driver *cuda.Error
		if own := c.Rank() == failed.Rank; errors.As(err, &driver) != own {
			return fmt.Errorf("rank %d has the driver's error: %v: %w", c.Rank(), !own, err)
		}
		return errors.Join(Barrier(ctx, c), BarrierDevice(ctx, c, s), c.SyncDevice(ctx, s), Barrier(ctx, c))
	})
}

// A given plan that the graph of the devices does not allow makes device calls an ErrDevice on all ranks,
// and the communicator works on the host.
func TestDevicesCannotBePlanned(t *testing.T) {
	if !asProcesses(t, 3, "dgx1v/0-2") {
		return
	}
	g := topo.UniformGraph(3)
	f, star, _ := planFile(t, g, "star", plan.AllReduce, -1)
	g.Hosts = []int{0, 1, 0} // a stable sum adds the inputs of ranks 0 and 2 first, and the star those of 0 and 1
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
		for range 2 {
			err := BarrierDevice(t.Context(), c, s)
			var failed *RankError
			if !errors.As(err, &failed) || failed.Rank != 0 || !errors.Is(err, ErrDevice) ||
				!strings.Contains(err.Error(), "the given plan: ") {
				return fmt.Errorf("rank %d: %w, want that the plan cannot be used", c.Rank(), err)
			}
		}
		return AllReduce(t.Context(), c, []int32{1}, []int32{1}, Sum)
	}, WithAlgorithm("", Planning{Stable: true}), WithPlan(f, star), WithDeviceGraph(g))
}

// A call of the driver that fails later, or a GPU that is lost, ends the communicator on all ranks, and the error names
// the rank, the device and the call.
func TestDeviceFails(t *testing.T) {
	for name, env := range map[string]string{
		"launch":  "TREERUN_FAKE_GPU_FAIL=cuLaunchKernel:40:719@1",
		"memory":  "TREERUN_FAKE_GPU_FAIL=cuStreamBatchMemOp:30:1@1",
		"records": "TREERUN_FAKE_GPU_FAIL=cuEventRecord:25:999@1",
		"lost":    "TREERUN_FAKE_GPU_LOST=1@100000",
	} {
		t.Run(name, func(t *testing.T) {
			if asProcesses(t, 3, "dgx1v", env) {
				deviceFails(t)
			}
		})
	}
}

// deviceFails is a rank of TestDeviceFails. Resources of a GPU that fails may stay allocated: only errors count.
func deviceFails(t *testing.T) {
	ctx := t.Context()
	c, err := New(ctx, member, WithDeviceGraph(topo.UniformGraph(3))) // nothing is measured: the driver fails in calls
	if err != nil {
		t.Fatal(err)
	}
	dev, err := gpuOf(c.Rank())
	if err != nil {
		t.Fatal(err)
	}
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	x, err := cuda.Alloc[float32](dev, 5000)
	if err != nil {
		t.Fatal(err)
	}
	for range 30000 {
		if err = AllReduceDevice(ctx, c, s, x, x, Sum); err != nil {
			break
		}
		if err = c.SyncDevice(ctx, s); err != nil {
			break
		}
	}
	var failed *RankError
	if !errors.As(err, &failed) || failed.Rank != 1 || !errors.Is(err, ErrDevice) ||
		!strings.Contains(err.Error(), "device 1") || !strings.Contains(err.Error(), "AllReduceDevice") {
		t.Errorf("rank %d: %v", c.Rank(), err)
	}
	if err := AllReduce(ctx, c, []int32{1}, []int32{1}, Sum); !errors.Is(err, ErrDevice) {
		t.Errorf("rank %d: the next call: %v", c.Rank(), err)
	}
	if err := c.Close(); err != nil && !errors.Is(err, ErrDevice) && !errors.Is(err, cuda.ErrDeviceLost) {
		t.Errorf("rank %d: Close: %v", c.Rank(), err)
	}
}

// A rank that closes, gives up or aborts while others wait for it on their devices
// is the first cause on all of them.
func TestDeviceStops(t *testing.T) {
	for name, w := range map[string]struct {
		stop func(c *Comm, s *cuda.Stream) error
		want error
	}{
		"closes": {func(c *Comm, s *cuda.Stream) error { return c.Close() }, ErrPeerClosed},
		"aborts": {func(c *Comm, s *cuda.Stream) error { c.Abort(errors.New("enough")); return nil }, ErrAborted},
		"gives up": {func(c *Comm, s *cuda.Stream) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			<-ctx.Done()
			if err := BarrierDevice(ctx, c, s); !errors.Is(err, ErrCanceled) {
				return fmt.Errorf("a call with a context that has ended: %v", err)
			}
			return nil
		}, ErrCanceled},
		"calls on the host": {func(c *Comm, s *cuda.Stream) error {
			if err := Barrier(t.Context(), c); !errors.Is(err, ErrMismatch) {
				return fmt.Errorf("Barrier beside BarrierDevice: %v", err)
			}
			return nil
		}, ErrMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			if !asRanks(t, fakegpu.Job{Hosts: []string{"dgx1v"}, Ranks: 3, Drops: true}) {
				return
			}
			err := onDevice(t, func(c *Comm, s *cuda.Stream) error {
				ctx := t.Context()
				if err := errors.Join(BarrierDevice(ctx, c, s), c.SyncDevice(ctx, s)); err != nil {
					if c.Rank() != 2 && errors.Is(err, w.want) {
						return nil // it was quick
					}
					return err
				}
				if c.Rank() == 2 {
					return w.stop(c, s)
				}
				began := time.Now()
				err := BarrierDevice(ctx, c, s)
				if err == nil {
					err = c.SyncDevice(ctx, s)
				}
				if !errors.Is(err, w.want) || time.Since(began) > patienceOnDevice {
					return fmt.Errorf("after %v: %v, want %v", time.Since(began), err, w.want)
				}
				return nil
			})
			if err != nil && !(member.Rank() == 2 && errors.Is(err, w.want)) {
				t.Errorf("rank %d: %v", member.Rank(), err)
			}
		})
	}
}

// A rank that is killed in the middle of AllReduces and AllToAlls ends the others' calls and streams; each rank detects
// the death by itself.
func TestDeviceRankKilled(t *testing.T) {
	const n = 75_000
	for i, ranks := range []int{4, 3, 2, 8}[:testutil.Count(3, 4)] { // on as many GPUs, and on half as many
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			j := fakegpu.Job{Hosts: []string{"dgx1v/0-3"}, Ranks: ranks, Kills: true}
			switch i {
			case 1:
				j.Env = noPeers
			case 2:
				j.Env = slowReads
			}
			if !asRanks(t, j) {
				return
			}
			mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) (err error) {
				ctx := t.Context()
				x, err := cuda.Alloc[float32](s.Device(), n)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, x.Free()) }()
				if err := s.Memset(x.Addr(), 0, x.Bytes()); err != nil {
					return err
				}
				err = fakegpu.Kill(t, c.Rank(), func(k int) error {
					err := AllReduceDevice(ctx, c, s, x, x, Max)
					if err == nil {
						err = AllToAllDevice(ctx, c, s, x, x)
					}
					if err == nil && k%3 == 2 { // several in flight
						err = c.SyncDevice(ctx, s)
					}
					return err
				}, func(err error) error {
					var failed *RankError
					if !errors.As(err, &failed) || failed.Rank != 1 || !errors.Is(err, ErrRankLost) {
						return fmt.Errorf("want the loss of rank 1, not %w", err)
					}
					return s.Synchronize(ctx)
				})
				return errors.Join(err, closed(c, ErrRankLost))
			})
		})
	}
}

// Groups have devices of their own, and plans are made for a graph of devices if the caller passes one.
func TestDeviceGroups(t *testing.T) {
	if !asProcesses(t, 6, "dgx1v") {
		return
	}
	g := topo.UniformGraph(6)
	for i := range g.Links {
		if g.Links[i].A == 0 {
			g.Links[i].GBytesPerSecond = 7
		}
	}
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) (err error) {
		ctx := t.Context()
		if err := errors.Join(BarrierDevice(ctx, c, s), c.SyncDevice(ctx, s)); err != nil {
			return err
		}
		if c.DeviceGraph() != g {
			return errors.New("the plans are not made for the graph that was given")
		}
		part, err := c.Split(ctx, c.Rank()%2, -c.Rank())
		if err != nil {
			return err
		}
		x, err := cuda.Alloc[int32](s.Device(), 3)
		if err != nil {
			return err
		}
		err = x.CopyFrom(ctx, s, []int32{int32(c.Rank()), 1, 100})
		if err := Barrier(ctx, c); err != nil {
			return err
		}
		err = errors.Join(err, AllReduceDevice(ctx, part, s, x, x, Sum), part.SyncDevice(ctx, s))
		got := make([]int32, 3)
		err = errors.Join(err, x.CopyTo(ctx, s, got), Barrier(ctx, c))
		if want := int32(6 + 3*(c.Rank()%2)); err == nil && (got[0] != want || got[1] != 3 || got[2] != 300) {
			err = fmt.Errorf("rank %d has %v, want %d first", c.Rank(), got, want)
		}
		return errors.Join(err, part.Close(), x.Free(), Barrier(ctx, c))
	}, WithDeviceGraph(g))
}

// Device calls of goroutines are refused on all of them, with advice in the error, and the communicator stays usable
// for calls on host memory.
func TestInProcessOnDevices(t *testing.T) {
	if !asProcesses(t, 1, "dgx1v/0-1") {
		return
	}
	for r, err := range inProcess(t, 2, func(_ World, c *Comm) error {
		dev, err := gpuOf(c.Rank())
		if err != nil {
			return err
		}
		s, err := dev.NewStream()
		if err != nil {
			return err
		}
		err = BarrierDevice(t.Context(), c, s)
		var failed *RankError
		if !errors.As(err, &failed) || !errors.Is(err, ErrDevice) ||
			!strings.Contains(err.Error(), "device calls need a process per rank: start them with treerun") {
			return fmt.Errorf("BarrierDevice of a goroutine: %w", err)
		}
		return errors.Join(Barrier(t.Context(), c), s.Close())
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
