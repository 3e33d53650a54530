//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/rank"
)

// deviceOf returns the GPU with a rank's data: the one that treerun gave it or, where it gave none, the one of the same
// number among those that the process sees.
func deviceOf(world *rank.World) (*cuda.Device, error) {
	if uuid := world.Device(); uuid != "" {
		dev, err := cuda.DeviceByUUID(uuid)
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", world.Rank(), err)
		}
		return dev, nil
	}
	all, err := cuda.Devices()
	if err != nil {
		return nil, fmt.Errorf("rank %d: --device cuda: %w", world.Rank(), err)
	}
	if len(all) < world.LocalSize() {
		return nil, fmt.Errorf("rank %d: --device cuda: treerun gave this rank no GPU, and %d ranks of its host see %d; "+
			"--ranks-per-gpu lets them share", world.Rank(), world.LocalSize(), len(all))
	}
	return all[world.LocalRank()], nil
}

// gpu is the memory of a meter on a GPU, in addition to that on the host, where inputs are made and results compared,
// element for element.
type gpu[T collective.Number] struct {
	stream     *cuda.Stream
	send, recv cuda.Slice[T]
}

// newGPU allocates n elements for each buffer. The caller closes it.
func newGPU[T collective.Number](dev *cuda.Device, n int) (g *gpu[T], err error) {
	g = &gpu[T]{}
	if g.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	for _, s := range []*cuda.Slice[T]{&g.send, &g.recv} {
		if *s, err = cuda.Alloc[T](dev, n); err != nil {
			return nil, errors.Join(err, g.close())
		}
	}
	return g, nil
}

// close frees the memory. g may be nil.
func (g *gpu[T]) close() error {
	if g == nil {
		return nil
	}
	return errors.Join(g.send.Free(), g.recv.Free(), g.stream.Close())
}

// upload copies the buffers of all calls from the host to the GPU, where they are called there.
func (m *meter[T]) upload(ctx context.Context, r *prepared[T]) error {
	if m.gpu == nil {
		return nil
	}
	for i := range r.calls {
		k := &r.calls[i]
		// In place the input is a part of the result's buffer, or the other way round.
		if err := errors.Join(k.out.CopyFrom(ctx, m.gpu.stream, k.recv),
			k.input.CopyFrom(ctx, m.gpu.stream, k.send)); err != nil {
			return err
		}
	}
	return nil
}

// download copies the results of all calls back.
func (m *meter[T]) download(ctx context.Context, r *prepared[T]) error {
	if m.gpu == nil {
		return nil
	}
	for i := range r.calls {
		k := &r.calls[i]
		if err := k.out.CopyTo(ctx, m.gpu.stream, k.recv); err != nil {
			return err
		}
	}
	return nil
}

const (
	gpuCopyVolume = 256 << 20 // minimum bytes that a GPU copies at a time, unless that takes too many copies
	maxCopies     = 32
)

// copyOnGPU copies the given number of times from one buffer of a GPU to the other, as the ranks that share it do.
func (m *meter[T]) copyOnGPU(ctx context.Context, count int, times int64) error {
	to, from := m.gpu.recv.Slice(0, count), m.gpu.send.Slice(0, count)
	for range times {
		if err := m.gpu.stream.Memcpy(to.Addr(), from.Addr(), to.Bytes()); err != nil {
			return err
		}
	}
	return m.gpu.stream.Synchronize(ctx)
}

// openGPUs makes the first device call, which opens the GPUs of all ranks, so that no row includes the time for that.
func openGPUs(ctx context.Context, c *collective.Comm, dev *cuda.Device) (err error) {
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := collective.BarrierDevice(ctx, c, s); err != nil {
		return err
	}
	return c.SyncDevice(ctx, s)
}
