package comm

import (
	"context"
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
)

// DeviceArgs is a device call that has been checked and not begun.
type DeviceArgs struct {
	Args
	stream  *cuda.Stream
	In, Out Buffer
}

// Buffer is a slice in device memory, whatever its type. The zero value is none.
type Buffer struct {
	name   string // "send"
	device *cuda.Device
	addr   cuda.Addr
	count  int
	bytes  int64
	err    error // it cannot be used
}

// BufferOf returns s as a buffer that errors call by a name.
func BufferOf[T cuda.Number](name string, s cuda.Slice[T]) Buffer {
	return Buffer{name, s.Device(), s.Addr(), s.Len(), s.Bytes(), s.Check()}
}

// part returns the i-th part of n bytes.
func (b Buffer) part(i int, n int64) Buffer {
	b.addr, b.bytes = b.addr+cuda.Addr(int64(i)*n), n
	return b
}

// overlapOfDevice says how two buffers share memory.
func overlapOfDevice(a, b Buffer) overlap {
	p, q := uint64(a.addr), uint64(b.addr)
	switch {
	case a.bytes == 0 || b.bytes == 0:
		return Apart
	case p == q && a.bytes == b.bytes:
		return inPlace
	case p < q+uint64(b.bytes) && q < p+uint64(a.bytes):
		return Partial
	}
	return Apart
}

// Set is args.set for a device call, which also checks stream and buffers.
func (k *DeviceArgs) Set(c *Comm, kind plan.Kind, t kernel.DType, s *cuda.Stream, root, count int, in,
	out Buffer) *DeviceArgs {
	k.device = true
	k.Args.Set(c, kind, root, count, t, nil, nil)
	k.stream, k.In, k.Out = s, in, out
	if k.Err != nil {
		return k
	}
	if s == nil || s.Device() == nil {
		k.Refuse(c, "no stream")
		return k
	}
	if err := s.Check(); err != nil {
		k.Refuse(c, "%w", err)
		return k
	}
	for _, b := range []Buffer{in, out} {
		switch {
		case b.err != nil:
			k.Refuse(c, "%s: %w", b.name, b.err)
		case b.count > 0 && b.device != s.Device():
			k.Refuse(c, "%s is memory of %v, the stream is one of %v", b.name, b.device, s.Device())
		case b.count > 0 && b.addr == 0:
			k.Refuse(c, "%s is no device memory", b.name)
		}
	}
	return k
}

// Reducing is Args.Reducing.
func (k *DeviceArgs) Reducing(c *Comm, op kernel.Op) *DeviceArgs {
	k.Args.Reducing(c, op)
	if op == kernel.Avg && k.Out.name != "" {
		k.Divide = c.Size
	}
	return k
}

// Separate is Args.Separate.
func (k *DeviceArgs) Separate(c *Comm) *DeviceArgs {
	if k.Err == nil && overlapOfDevice(k.In, k.Out) == Partial {
		k.Refuse(c, "send and recv overlap in part; use the same slice or two separate ones")
	}
	return k
}

// SeparateParts is args.separateParts.
func (k *DeviceArgs) SeparateParts(c *Comm, part, whole Buffer) *DeviceArgs {
	if k.Err != nil || overlapOfDevice(part, whole) == Apart {
		return k
	}
	if overlapOfDevice(part, whole.part(c.Rank, part.bytes)) != inPlace {
		k.Refuse(c, "send and recv overlap; in place, the short slice is part %d of the long one", c.Rank)
	}
	return k
}

// Enqueue puts a device call into its stream, and opens the devices before the
// first.
func (c *Comm) Enqueue(ctx context.Context, k *DeviceArgs) error {
	if k.Err != nil {
		return k.Err
	}
	if err := c.Claim(k.name()); err != nil {
		return err
	}
	defer c.End()
	return c.heldEnqueue(ctx, k)
}

// haveDevices opens the devices unless they are open. k's stream is one of this
// rank's. The communicator is claimed.
func (c *Comm) haveDevices(ctx context.Context, k *DeviceArgs, dev *cuda.Device) error {
	if c.Devices == nil {
		d, err := c.openDevices(ctx, dev)
		if err != nil {
			return c.openingError(k, err)
		}
		c.Devices = d
	}
	if d := c.Devices; d.device != dev {
		k.Refuse(c, "a stream of %v; the communicator's device calls on this rank are on %v", dev, d.device)
		return k.Err
	}
	return nil
}

// heldEnqueue is enqueue with the communicator claimed.
func (c *Comm) heldEnqueue(ctx context.Context, k *DeviceArgs) error {
	if err := ctx.Err(); err != nil {
		return c.Cancel(ctx, &k.Args)
	}
	if err := c.haveDevices(ctx, k, k.stream.Device()); err != nil {
		return err
	}
	d := c.Devices
	if err := d.room(ctx); err != nil {
		if ctx.Err() != nil {
			return c.Cancel(ctx, &k.Args)
		}
		return c.deviceBroken(ctx, k.name(), err)
	}
	if fault, failed := c.Endpoint.Aborted(); failed {
		return c.deviceFault(ctx, fault, k.name())
	}
	lent, place, err := d.lend(k)
	if err != nil {
		k.Refuse(c, "%w", err)
		return k.Err
	}
	c.Seq++
	h := c.header(&k.Args)
	c.Engine.Announce(&h)
	if err := d.enter(k, h, lent, place); err != nil {
		return c.deviceBroken(ctx, engine.Describe(h), err)
	}
	return nil
}

// deviceBroken ends the communicator with an error of this rank's device, or of
// its group, and returns the first cause.
func (c *Comm) deviceBroken(ctx context.Context, during string, err error) error {
	d := c.Devices
	if d.group.Err() != nil && errors.Is(err, d.group.Err()) {
		d.groupFailed(err)
	} else {
		d.broken(during, err)
	}
	fault, _ := c.Endpoint.Aborted()
	d.group.Abort(errorOf(fault))
	return c.deviceFault(ctx, fault, during)
}

// openingError is why the devices could not be opened: an error of a device, which
// all ranks have and which leaves the communicator as it was, or the failure of
// the communicator itself.
func (c *Comm) openingError(k *DeviceArgs, err error) error {
	var failed *RankError
	if errors.As(err, &failed) {
		failed.Op = fmt.Sprintf("%s on rank %d: %s", k.name(), c.Rank, failed.Op)
		return failed
	}
	if fault, aborted := c.Endpoint.Aborted(); aborted {
		return c.failDuring(context.Background(), fault, k.name()+": opening the devices", "")
	}
	return &RankError{Rank: -1, Op: fmt.Sprintf("%s on rank %d: opening the devices", k.name(), c.Rank), Err: err}
}
