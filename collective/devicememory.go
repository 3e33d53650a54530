package collective

import (
	"context"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/comm"
)

// DeviceMemory is device memory of all ranks that every device may read where it
// lies: see RegisterDevice.
type DeviceMemory struct{ memory *comm.DeviceMemory }

// RegisterDevice lets the devices of all ranks read x where it lies, which spares
// large calls the copies through staging memory: AllReduceDevice, AllGatherDevice
// and ReduceScatterDevice whose send and recv lie in registered memory, on all ranks
// in the same of them, as many elements behind its beginning; in place, that of the
// whole message counts. A rank that has them elsewhere than the others is found out,
// as with different calls.
//
// All ranks call it together, as they make a call. The memory is registered until
// Close. Before that Free of it is cuda.ErrHeld; where another library frees memory
// of cuda.Wrap, calls whose send or recv lies at its address are ErrArgument and
// cuda.ErrFreed on that rank. Where a device cannot read another's, memory
// is of a pool, or ranks are on several hosts, it may be called and has no effect:
// calls go through staging memory.
func RegisterDevice[T Number](ctx context.Context, c *Comm, x cuda.Slice[T]) (*DeviceMemory, error) {
	m, err := c.in.Devices.Register(ctx, x)
	if err != nil {
		return nil, err
	}
	return &DeviceMemory{m}, nil
}

// Close ends the registration, when no call uses the memory any more. All ranks call
// it together; when it returns nil, the memory may be freed. After a failure of the
// communicator, or when that was closed, it returns at once.
func (m *DeviceMemory) Close(ctx context.Context) error { return m.memory.Close(ctx) }
