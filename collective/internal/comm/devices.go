package comm

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/treerun/treerun/collective/internal/device"
	"github.com/treerun/treerun/collective/internal/devices"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/status"
	"github.com/treerun/treerun/transport"
)

// Devices are a communicator's devices, and the calls on their memory.
type Devices struct {
	Session *devices.Session // nil until the first call
	c       *Comm
}

// Enqueue puts a device call into its stream, and opens the devices before the
// first.
func (d *Devices) Enqueue(ctx context.Context, k *DeviceArgs) error {
	c := d.c
	if err := c.Begin(&k.Args); err != nil {
		return err
	}
	defer c.End()
	err := d.start(ctx, k)
	runtime.KeepAlive(k) // and with it the memory, which from now on is that of the stream's work, too
	return err
}

// have opens the devices unless they are open. dev is this rank's. The
// communicator is claimed.
func (d *Devices) have(ctx context.Context, k *Args, dev *cuda.Device) error {
	c := d.c
	if d.Session == nil {
		s, err := devices.Open(ctx, c.Setup, &c.Links, newInnerWorld(c, openDevices, call.Exchange), dev)
		if err != nil {
			return d.openingError(k, err)
		}
		d.Session = s
	}
	if d.Session.Device != dev {
		k.Refuse(c, "a stream of %v; the communicator's device calls on this rank are on %v", dev,
			d.Session.Device)
		return k.Err
	}
	return nil
}

// start is Enqueue with the communicator claimed.
func (d *Devices) start(ctx context.Context, k *DeviceArgs) error {
	c := d.c
	if err := ctx.Err(); err != nil {
		return c.Cancel(ctx, &k.Args)
	}
	if err := d.have(ctx, &k.Args, k.stream.Device()); err != nil {
		return err
	}
	if err := d.room(ctx, k.Form.Name(&k.ID), nil); err != nil {
		if ctx.Err() != nil {
			return c.Cancel(ctx, &k.Args)
		}
		return err
	}
	c.Seq++
	id := k.ID
	id.Seq = c.Seq
	c.Tally.count(status.RowOf(&id), k.Args.bytes(c.Size))
	next := device.Call{In: k.send.Addr, Out: k.recv.Addr, Work: k.Work}
	if err := d.Session.Start(k.stream, k.Kind, id, &next); err != nil {
		return d.failed(id.String(), err)
	}
	return nil
}

// room waits until one more call may begin, with the message out that it sends, if any.
func (d *Devices) room(ctx context.Context, call string, out *devices.Message) error {
	if err := d.Session.Room(ctx, out); err != nil && ctx.Err() != nil {
		return err
	} else if err != nil {
		d.Session.Fail(call, err)
	}
	if fault, failed := d.c.Endpoint.Aborted(); failed {
		return d.fault(fault, call)
	}
	return nil
}

// failed makes an error of a call that failure of the communicator.
func (d *Devices) failed(during string, err error) error {
	d.Session.Fail(during, err)
	fault, _ := d.c.Endpoint.Aborted()
	return d.fault(fault, during)
}

// openingError is why the devices could not be opened: an error of a device, which
// all ranks have and which leaves the communicator as it was, or the failure of
// the communicator itself.
func (d *Devices) openingError(k *Args, err error) error {
	c := d.c
	var failed *setup.RankError
	if errors.As(err, &failed) {
		failed.Op = fmt.Sprintf("%s on rank %d: %s", k.Form.Name(&k.ID), c.Rank, failed.Op)
		return failed
	}
	if fault, aborted := c.Endpoint.Aborted(); aborted {
		return c.failure.during(fault, k.Form.Name(&k.ID)+": opening the devices", "")
	}
	op := fmt.Sprintf("%s on rank %d: opening the devices", k.Form.Name(&k.ID), c.Rank)
	return &setup.RankError{Rank: -1, Op: op, Err: err}
}

// Sync is Comm.SyncDevice of package collective.
func (d *Devices) Sync(ctx context.Context, s *cuda.Stream) error {
	c := d.c
	const call = "SyncDevice"
	if err := devices.Problem(s); err != nil {
		return c.ArgumentError(call, "%w", err)
	}
	if err := c.Claim(call); err != nil {
		return err
	}
	defer c.End()
	if d.Session == nil {
		var err error
		if c.claim.without(func() { err = s.Synchronize(ctx) }); err != nil {
			return fmt.Errorf("collective: %s on rank %d: %w", call, c.Rank, err)
		}
		return nil
	}
	during, err := call, error(nil)
	c.claim.without(func() { during, err = d.Session.Sync(ctx, s, call) })
	if fault, failed := c.Endpoint.Aborted(); failed {
		return d.fault(fault, during)
	}
	return err
}

// fault is failure.during for device calls: on the rank at fault the error wraps that of its device.
func (d *Devices) fault(f transport.Fault, during string) error {
	_ = d.c.failure.during(f, during, undefinedAnyhow)
	return d.c.failure.causedBy(d.Session.Cause())
}
