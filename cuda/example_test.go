package cuda_test

import (
	"context"
	"fmt"

	"github.com/treerun/treerun/cuda"
)

// What GPUs are there?
func ExampleDevices() {
	list := func() error {
		n, err := cuda.HostGPUs() // without the driver
		if err != nil || n == 0 {
			return err
		}
		version, err := cuda.DriverVersion()
		if err != nil {
			return err // errors.Is(err, cuda.ErrUnavailable)
		}
		fmt.Println(n, "GPUs, CUDA", version)
		all, err := cuda.Devices()
		if err != nil {
			return err
		}
		for _, d := range all {
			free, err := d.FreeMemory()
			if err != nil {
				return err
			}
			fmt.Println(d.Index(), d.Name(), d.UUID(), d.PCI(), d.Multiprocessors(), free, "of", d.TotalMemory(), "bytes")
			near, err := d.CanAccess(all[0])
			if err != nil {
				return err
			}
			fmt.Println(d.String(), "reads the memory of device 0:", near)
		}
		return nil
	}
	_ = list
}

// A slice goes to the GPU and back.
func ExampleAlloc() {
	double := func(ctx context.Context, uuid string, x []float32,
		kernel func(*cuda.Stream, cuda.Slice[float32]) error) error {
		d, err := cuda.DeviceByUUID(uuid) // rank's World.Device
		if err != nil {
			return err
		}
		s, err := d.NewStream()
		if err != nil {
			return err
		}
		defer s.Close()
		onGPU, err := cuda.Alloc[float32](d, len(x))
		if err != nil {
			return err
		}
		defer onGPU.Free()
		if err := onGPU.CopyFrom(ctx, s, x); err != nil {
			return err
		}
		if err := kernel(s, onGPU.Slice(0, onGPU.Len()/2)); err != nil {
			return err
		}
		return onGPU.CopyTo(ctx, s, x)
	}
	_ = double
}

// Pinned memory is copied at full speed, and at the same time as other work: an event marks the copy's end.
func ExampleAllocPinned() {
	copied := func(ctx context.Context, d *cuda.Device, s, other *cuda.Stream, to cuda.Slice[float32]) error {
		host, err := cuda.AllocPinned[float32](d, to.Len())
		if err != nil {
			return err
		}
		defer host.Free()
		host.Host()[0] = 1
		before, err := d.NewEvent(true)
		if err != nil {
			return err
		}
		defer before.Close()
		after, err := d.NewEvent(true)
		if err != nil {
			return err
		}
		defer after.Close()
		if err := s.Record(before); err != nil {
			return err
		}
		if err := s.Memcpy(to.Addr(), host.Addr(), to.Bytes()); err != nil {
			return err
		}
		if err := s.Record(after); err != nil {
			return err
		}
		if err := other.Wait(after); err != nil { // later work in other comes behind the copy
			return err
		}
		if err := other.Memset(to.Addr(), 0, to.Bytes()); err != nil {
			return err
		}
		if err := other.Synchronize(ctx); err != nil {
			return err
		}
		took, err := after.Since(before)
		fmt.Println(took)
		return err
	}
	_ = copied
}

// A kernel of PTX, which takes a struct.
func ExampleStream_Launch() {
	launch := func(d *cuda.Device, s *cuda.Stream, ptx, args []byte) error {
		m, err := d.Load(ptx)
		if err != nil {
			return err
		}
		defer m.Close()
		k, err := m.Kernel("scale")
		if err != nil {
			return err
		}
		if err := s.Launch(k, 80, 256, args); err != nil {
			return err
		}
		done, err := s.Query()
		fmt.Println("done already:", done)
		return err
	}
	_ = launch
}

// Memory of another library, or of another process of this host: the other one has exported it.
func ExampleDevice_OpenMemory() {
	read := func(d *cuda.Device, h cuda.MemHandle) (cuda.Slice[float32], error) {
		theirs, err := d.OpenMemory(h) // of d.ExportMemory there
		if err != nil {
			return cuda.Slice[float32]{}, err
		}
		return cuda.Wrap[float32](d, theirs.Addr(), 1<<20) // until theirs.Close
	}
	export := func(d *cuda.Device, s cuda.Slice[float32]) (cuda.MemHandle, error) {
		h, _, offset, _, err := d.ExportMemory(s.Addr())
		fmt.Println("it begins at byte", offset)
		return h, err
	}
	_, _ = read, export
}

// The stream of another library, which has computed a gradient in it, is where the sum of all ranks' is computed.
func ExampleWrapStream() {
	sum := func(d *cuda.Device, stream, address uintptr, n int, // a CUstream and a CUdeviceptr
		add func(*cuda.Stream, cuda.Slice[float32]) error) error { // collective's AllReduceDevice and SyncDevice
		s, err := cuda.WrapStream(d, stream)
		if err != nil {
			return err
		}
		defer s.Close() // the stream stays the library's
		x, err := cuda.Wrap[float32](d, cuda.Addr(address), n)
		if err != nil {
			return err
		}
		return add(s, x)
	}
	_ = sum
}
