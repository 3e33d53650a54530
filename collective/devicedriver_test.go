//go:build cgo && linux

package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// Ranks that see only their own GPU (treerun --gpu-bind isolate) can still read each other's memory.
func TestHiddenDevices(t *testing.T) {
	if !asProcesses(t, 2, "dgx1v") {
		return
	}
	t.Setenv("CUDA_VISIBLE_DEVICES", member.Device()) // the driver is not open yet
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
		if all, err := cuda.Devices(); err != nil || len(all) != 1 {
			return fmt.Errorf("%d devices, want one: %w", len(all), err)
		}
		err := errors.Join(BarrierDevice(t.Context(), c, s), c.SyncDevice(t.Context(), s))
		if err == nil && len(c.in.Links.Opened) > 0 {
			err = errors.New("the devices do not read each other's memory")
		}
		return err
	})
}

// A stream that another library captures is an ErrArgument, on any set of ranks, before and after the devices are open,
// and the communicator stays usable with it once the capture has ended.
func TestCapturedStreamIsRefused(t *testing.T) {
	if !asProcesses(t, 2, "dgx1v/0-1", "TREERUN_FAKE_GPU_CALL_US=0") { // not on a real GPU
		return
	}
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
		for range 2 {
			if _, err := s.Query(); err != nil { // the driver is in use
				return err
			}
			fakegpu.Capture(t, s.Handle())
			for _, err := range []error{BarrierDevice(t.Context(), c, s), c.SyncDevice(t.Context(), s)} {
				if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), "end the capture") {
					return fmt.Errorf("%w, want a stream that is refused", err)
				}
			}
			fakegpu.Capture(t, 0)
			if err := errors.Join(BarrierDevice(t.Context(), c, s), c.SyncDevice(t.Context(), s)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A program that shares a small buffer of its own, which the driver places in one block with all other small ones, does
// not prevent the devices from reading each other's memory, nor the communicator from using that buffer's neighbors.
func TestSmallSharedBuffer(t *testing.T) {
	if !asProcesses(t, 2, "dgx1v/0-1") {
		return
	}
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) (err error) {
		x, err := cuda.Alloc[byte](s.Device(), 1000)
		if err != nil {
			return err
		}
		h, _, _, _, err := s.Device().ExportMemory(x.Addr())
		if err != nil {
			return err
		}
		handles := make([]byte, 2*len(h))
		if err := AllGather(t.Context(), c, h[:], handles); err != nil {
			return err
		}
		copy(h[:], handles[(1-c.Rank())*len(h):])
		m, err := s.Device().OpenMemory(h)
		if err != nil {
			return err
		}
		err = errors.Join(BarrierDevice(t.Context(), c, s), c.SyncDevice(t.Context(), s))
		if err == nil && len(c.in.Links.Opened) > 0 {
			err = errors.New("the devices do not read each other's memory")
		}
		return errors.Join(err, m.Close(), Barrier(t.Context(), c), x.Free())
	})
}

// If a driver has fewer queues than requested, streams that wait could hold up others: calls then stay on their own
// streams, and -v reports it. They also stay on their own streams if the number of queues is set. Both cases are
// correct.
func TestQueuesOfADevice(t *testing.T) {
	for _, c := range []struct{ name, asked string }{{"as many as were asked for", "1"}, {"fewer", ""}} {
		t.Run(c.name, func(t *testing.T) {
			if !asProcesses(t, 4, "dgx1v/0-3", "TREERUN_FAKE_GPU_QUEUES=1", "CUDA_DEVICE_MAX_CONNECTIONS="+c.asked) {
				return
			}
			mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
				const n = 1 << 20
				x, err := cuda.Alloc[int32](s.Device(), n)
				if err != nil {
					return err
				}
				host := make([]int32, n)
				for i := range host {
					host[i] = int32(c.Rank() + 1)
				}
				err = errors.Join(x.CopyFrom(t.Context(), s, host), AllReduceDevice(t.Context(), c, s, x, x, Sum))
				err = errors.Join(err, c.SyncDevice(t.Context(), s), x.CopyTo(t.Context(), s, host))
				if err == nil && (host[0] != 10 || host[n-1] != 10) {
					err = fmt.Errorf("sums %d and %d, want 10", host[0], host[n-1])
				}
				return errors.Join(err, x.Free())
			})
		})
	}
}
