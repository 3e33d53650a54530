//go:build cgo

package collective

import (
	"errors"
	"fmt"
	"testing"

	"github.com/treerun/treerun/cuda"
)

// Calls on registered memory, in place and not, at some distance from its beginning,
// are as right as others; a rank that has it elsewhere is found out; memory that is
// not registered on all ranks goes through staging.
func TestRegisteredMemory(t *testing.T) {
	const n, count, shift = 4, 200_000, 33
	if !onRanks(t, n, "dgx1v", "TREERUN_FAKE_GPU_JITTER=20:4") {
		return
	}
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) (err error) {
		ctx := t.Context()
		var x [2]cuda.Slice[int32]
		var m [2]*DeviceMemory
		for i := range x {
			if x[i], err = cuda.Alloc[int32](s.Device(), n*count+shift+c.Rank()); err != nil {
				return err
			}
		}
		defer func() {
			for i := range x { // the communicator has failed: Close of the memory returns at once
				if m[i] != nil {
					err = errors.Join(err, m[i].Close(ctx))
				}
				err = errors.Join(err, x[i].Free())
			}
		}()
		for i := range x {
			if m[i], err = RegisterDevice(ctx, c, x[i]); err != nil {
				return err
			}
		}
		if !m[0].memory.Direct || m[1].memory.Number != 2 || m[0].memory.Bytes != 4*(n*count+shift) {
			return fmt.Errorf("rank %d has registered %+v", c.Rank(), *m[0])
		}
		if err := tryRegistered(t, c, s, x, shift, count); err != nil {
			return err
		}
		part := func(from int) cuda.Slice[int32] { return x[0].Slice(shift+from, shift+from+count) }
		if err := m[1].Close(ctx); errors.Is(err, ErrMismatch) {
			return nil // the others were quick
		} else if err != nil {
			return err
		}
		// One rank gives other places than the rest.
		at := 0
		if c.Rank() == 2 {
			at = 64
		}
		err = AllReduceDevice(ctx, c, s, part(at), part(at), Sum)
		if err == nil {
			err = c.SyncDevice(ctx, s)
		}
		if err == nil {
			err = errors.Join(BarrierDevice(ctx, c, s), c.SyncDevice(ctx, s))
		}
		if !errors.Is(err, ErrMismatch) {
			return fmt.Errorf("registered memory in different places: %v", err)
		}
		if err := m[0].Close(ctx); err != nil {
			return err
		}
		return nil
	})
}

// tryRegistered makes the calls that read registered memory where it lies.
func tryRegistered(t *testing.T, c *Comm, s *cuda.Stream, x [2]cuda.Slice[int32], shift, count int) error {
	ctx, n := t.Context(), c.Size()
	part := func(i, from, k int) cuda.Slice[int32] { return x[i].Slice(shift+from, shift+from+k) }
	me := c.Rank()
	for _, call := range []struct {
		name string
		run  func() error
		out  cuda.Slice[int32]
		want func(i int) int32
	}{
		{"AllReduce", func() error { return AllReduceDevice(ctx, c, s, part(0, 0, count), part(1, 0, count), Sum) },
			part(1, 0, count), func(i int) int32 { return int32(n*(i%100) + 6) }},
		{"AllReduce in place", func() error { return AllReduceDevice(ctx, c, s, part(0, 0, count), part(0, 0, count), Max) },
			part(0, 0, count), func(i int) int32 { return int32(i%100 + 3) }},
		{"AllGather", func() error { return AllGatherDevice(ctx, c, s, part(0, 0, count), part(1, 0, n*count)) },
			part(1, 0, n*count), func(i int) int32 { return int32(i%count%100 + i/count) }},
		{"AllGather in place", func() error {
			return AllGatherDevice(ctx, c, s, part(0, me*count, count),
				part(0, 0, n*count))
		}, part(0, 0, n*count), func(i int) int32 { return int32(i%100 + i/count) }},
		{"ReduceScatter", func() error { return ReduceScatterDevice(ctx, c, s, part(0, 0, n*count), part(1, 0, count), Sum) },
			part(1, 0, count), func(i int) int32 { return int32(n*((me*count+i)%100) + 6) }},
		{"ReduceScatter in place", func() error {
			return ReduceScatterDevice(ctx, c, s, part(0, 0, n*count), part(0, me*count, count), Sum)
		}, part(0, me*count, count), func(i int) int32 { return int32(n*((me*count+i)%100) + 6) }},
	} {
		host := make([]int32, x[0].Len())
		for i := range n * count {
			host[shift+i] = int32(i%100 + me)
		}
		if err := errors.Join(x[0].CopyFrom(ctx, s, host), Barrier(ctx, c), call.run(), c.SyncDevice(ctx, s)); err != nil {
			return fmt.Errorf("%s: %w", call.name, err)
		}
		got := make([]int32, call.out.Len())
		if err := errors.Join(call.out.CopyTo(ctx, s, got), Barrier(ctx, c)); err != nil {
			return err
		}
		for i := range got {
			if got[i] != call.want(i) {
				return fmt.Errorf("%s on rank %d: element %d is %d, want %d", call.name, me, i, got[i], call.want(i))
			}
		}
	}
	return nil
}
