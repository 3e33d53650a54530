//go:build cgo && linux

package collective

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/treerun/treerun/cuda"
)

// A rank whose Close comes some seconds after the others', as on shared GPUs, finds them waiting: no rank frees memory
// that another one has mapped.
func TestDeviceCloseWaits(t *testing.T) {
	if !asProcesses(t, 2, "dgx1v/0") {
		return
	}
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
		err := errors.Join(BarrierDevice(t.Context(), c, s), c.SyncDevice(t.Context(), s))
		if c.Rank() == 1 {
			time.Sleep(2 * time.Second)
		}
		return err
	})
}

// Two goroutines of every rank each use one of two communicators, on streams of their own or of another library: the
// order of their calls differs between ranks.
func TestTwoCommunicatorsOnDevices(t *testing.T) {
	if !asProcesses(t, 4, "dgx1v/0-3") {
		return
	}
	const n, calls = 1000, 15 // 4 to the 15th is an int32
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), patienceOnDevice)
		defer cancel()
		second, err := c.Dup(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, second.Close()) }()
		own, err := s.Device().NewStream()
		if err != nil {
			return err
		}
		defer own.Close()
		wrapped, err := cuda.WrapStream(s.Device(), own.Handle())
		if err != nil {
			return err
		}
		defer wrapped.Close()
		x, err := cuda.Alloc[int32](s.Device(), 2*n)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, x.Free()) }()
		host := make([]int32, 2*n)
		for i := range host {
			host[i] = 1
		}
		err = errors.Join(BarrierDevice(ctx, c, s), BarrierDevice(ctx, second, wrapped), c.SyncDevice(ctx, s),
			second.SyncDevice(ctx, wrapped), x.CopyFrom(ctx, s, host)) // both are open, and no memory is allocated or freed
		results := make(chan error, 2)
		for i, of := range []*Comm{c, second} {
			part, s := x.Slice(i*n, (i+1)*n), []*cuda.Stream{s, wrapped}[i]
			go func() {
				err := err
				for k := 0; k < calls && err == nil; k++ {
					if err = AllReduceDevice(ctx, of, s, part, part, Sum); err == nil && (k+of.Rank())%7 == i {
						err = of.SyncDevice(ctx, s)
					}
				}
				results <- errors.Join(err, of.SyncDevice(ctx, s))
			}()
		}
		if err := errors.Join(<-results, <-results, x.CopyTo(ctx, s, host)); err != nil {
			return err
		}
		want := int32(1)
		for range calls {
			want *= 4
		}
		if i := slices.IndexFunc(host, func(v int32) bool { return v != want }); i >= 0 {
			return fmt.Errorf("element %d is %d, want %d", i, host[i], want)
		}
		return Barrier(ctx, c) // no rank frees memory before all are done
	})
}

// Device memory that is not referenced after a call stays allocated until the call is done, also if the call opens the
// devices first and the garbage collector runs meanwhile.
func TestCollectedDeviceMemory(t *testing.T) {
	if !asProcesses(t, 3, "dgx1v/0-3") {
		return
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	c, err := New(ctx, member)
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
	go func() {
		for ctx.Err() == nil {
			runtime.GC()
		}
	}()
	x, err := cuda.Alloc[float32](dev, 1000)
	if err == nil {
		err = AllReduceDevice(ctx, c, s, x, x, Sum)
	}
	if err == nil {
		err = c.SyncDevice(ctx, s)
	}
	if err = errors.Join(err, c.Close(), s.Close()); err != nil {
		t.Errorf("rank %d: %v", c.Rank(), err)
	}
}
