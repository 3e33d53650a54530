package comm

import (
	"context"
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/comm/setup"
	"github.com/treerun/treerun/internal/device"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/transport"
)

// Devices are a communicator's devices, and the calls on their memory.
type Devices struct {
	*device.Session // nil until the first call
	c               *Comm
}

// Enqueue puts a device call into its stream, and opens the devices before the
// first.
func (d *Devices) Enqueue(ctx context.Context, k *DeviceArgs) error {
	c := d.c
	if k.Err != nil {
		return k.Err
	}
	if err := c.Claim(k.name()); err != nil {
		return err
	}
	defer c.End()
	return d.enqueue(ctx, k)
}

// have opens the devices unless they are open. dev is this rank's. The
// communicator is claimed.
func (d *Devices) have(ctx context.Context, k *Args, what string, dev *cuda.Device) error {
	c := d.c
	if d.Session == nil {
		s, err := device.Open(ctx, &device.Owner{Setup: c.Setup, Inner: newInner(c, openDevices), Abort: c.abort,
			OpenLinks: c.OpenLinks}, dev)
		if err != nil {
			return d.openingError(k, err)
		}
		d.Session = s
	}
	if d.Device != dev {
		k.Refuse(c, "%s of %v; the communicator's device calls on this rank are on %v", what, dev, d.Device)
		return k.Err
	}
	return nil
}

// enqueue is Enqueue with the communicator claimed.
func (d *Devices) enqueue(ctx context.Context, k *DeviceArgs) error {
	c := d.c
	if err := ctx.Err(); err != nil {
		return c.Cancel(ctx, &k.Args)
	}
	if err := d.have(ctx, &k.Args, "a stream", k.stream.Device()); err != nil {
		return err
	}
	if err := d.Room(ctx); err != nil {
		if ctx.Err() != nil {
			return c.Cancel(ctx, &k.Args)
		}
		d.Fail(k.name(), err)
	}
	if fault, failed := c.Endpoint.Aborted(); failed {
		return d.fault(fault, k.name())
	}
	lent, place, err := d.Lend(k.Kind, k.In, k.Out)
	if err != nil {
		k.Refuse(c, "%w", err)
		return k.Err
	}
	c.Seq++
	call := device.Call{Header: c.header(&k.Args), In: k.In.Addr, Out: k.Out.Addr, Lent: lent, Work: k.Work}
	c.Engine.Announce(&call.Header)
	if err := d.Enter(k.stream, k.Kind, k.Root, &call, place); err != nil {
		during := engine.Describe(call.Header)
		d.Fail(during, err)
		fault, _ := c.Endpoint.Aborted()
		return d.fault(fault, during)
	}
	return nil
}

// openingError is why the devices could not be opened: an error of a device, which
// all ranks have and which leaves the communicator as it was, or the failure of
// the communicator itself.
func (d *Devices) openingError(k *Args, err error) error {
	c := d.c
	var failed *setup.RankError
	if errors.As(err, &failed) {
		failed.Op = fmt.Sprintf("%s on rank %d: %s", k.name(), c.Rank, failed.Op)
		return failed
	}
	if fault, aborted := c.Endpoint.Aborted(); aborted {
		return c.failDuring(fault, k.name()+": opening the devices", "")
	}
	return &setup.RankError{Rank: -1, Op: fmt.Sprintf("%s on rank %d: opening the devices", k.name(), c.Rank), Err: err}
}

// Sync is Comm.SyncDevice of package collective.
func (d *Devices) Sync(ctx context.Context, s *cuda.Stream) error {
	c := d.c
	const call = "SyncDevice"
	if s == nil {
		return fmt.Errorf("collective: %s on rank %d: %w: no stream", call, c.Rank, setup.ErrArgument)
	}
	if err := s.Check(); err != nil {
		return fmt.Errorf("collective: %s on rank %d: %w: %w", call, c.Rank, setup.ErrArgument, err)
	}
	if err := c.Claim(call); err != nil {
		return err
	}
	defer c.End()
	if d.Session == nil {
		if err := s.Synchronize(ctx); err != nil {
			return fmt.Errorf("collective: %s on rank %d: %w", call, c.Rank, err)
		}
		return nil
	}
	during, err := d.Session.Sync(ctx, s, call)
	if fault, failed := c.Endpoint.Aborted(); failed {
		return d.fault(fault, during)
	}
	return err
}

// fault is failDuring for device calls: on the rank at fault the error wraps
// what its device said.
func (d *Devices) fault(f transport.Fault, during string) error {
	c := d.c
	err := c.failDuring(f, during, undefinedAnyhow)
	if cause := d.Session.Cause(); f.Rank == c.Rank && errors.Is(err, setup.ErrDevice) && cause != nil {
		c.err.Err = setup.DeviceError(c.err.Err.Error(), cause)
	}
	return err
}

// DeviceMemory is device memory of all ranks that every device may read where it lies.
type DeviceMemory struct {
	*device.Memory
	c *Comm
}

// registrable is a cuda.Slice, whatever its type.
type registrable interface {
	Check() error
	Len() int
	Device() *cuda.Device
	Addr() cuda.Addr
	Bytes() int64
	Hold(by string) (*cuda.Hold, error)
}

// Register lets the devices of all ranks read x where it lies.
func (d *Devices) Register(ctx context.Context, x registrable) (*DeviceMemory, error) {
	c := d.c
	k := &Args{registers: true, device: true}
	switch {
	case x.Check() != nil:
		k.Refuse(c, "%w", x.Check())
	case x.Len() == 0 || x.Device() == nil:
		k.Refuse(c, "no device memory")
	}
	if k.Err != nil {
		return nil, k.Err
	}
	if err := c.Claim(k.name()); err != nil {
		return nil, err
	}
	defer c.End()
	if err := d.have(ctx, k, "memory", x.Device()); err != nil {
		return nil, err
	}
	hold, err := x.Hold(fmt.Sprintf("RegisterDevice on rank %d", c.Rank))
	m, err := d.Session.Register(ctx, x.Addr(), x.Bytes(), hold, err)
	if err != nil {
		return nil, d.openingError(k, err)
	}
	return &DeviceMemory{m, c}, nil
}

// Close ends the registration.
func (m *DeviceMemory) Close(ctx context.Context) error {
	if err := m.c.Claim("DeviceMemory.Close"); errors.Is(err, setup.ErrBusy) {
		return err
	} else if err != nil {
		m.Release() // closed or failed: its end has unmapped the others' memory, or it will
		return nil
	}
	defer m.c.End()
	return m.c.Devices.Unregister(ctx, m.Memory)
}
