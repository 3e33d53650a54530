package collective

import (
	"context"
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
)

// deviceArgs is a device call that has been checked and not begun.
type deviceArgs struct {
	args
	stream  *cuda.Stream
	in, out buffer
}

// buffer is a slice in device memory, whatever its type. The zero value is none.
type buffer struct {
	name   string // "send"
	device *cuda.Device
	addr   cuda.Addr
	count  int
	bytes  int64
	err    error // it cannot be used
}

// part returns the i-th part of n bytes.
func (b buffer) part(i int, n int64) buffer {
	b.addr, b.bytes = b.addr+cuda.Addr(int64(i)*n), n
	return b
}

// overlapOfDevice says how two buffers share memory.
func overlapOfDevice(a, b buffer) overlap {
	p, q := uint64(a.addr), uint64(b.addr)
	switch {
	case a.bytes == 0 || b.bytes == 0:
		return apart
	case p == q && a.bytes == b.bytes:
		return inPlace
	case p < q+uint64(b.bytes) && q < p+uint64(a.bytes):
		return partial
	}
	return apart
}

// set is args.set for a device call, which also checks stream and buffers.
func (k *deviceArgs) set(c *inside, kind plan.Kind, t kernel.DType, s *cuda.Stream, root, count int, in,
	out buffer) *deviceArgs {
	k.device = true
	k.args.set(c, kind, root, count, t, nil, nil)
	k.stream, k.in, k.out = s, in, out
	if k.err != nil {
		return k
	}
	if s == nil || s.Device() == nil {
		k.refuse(c, "no stream")
		return k
	}
	if err := s.Check(); err != nil {
		k.refuse(c, "%w", err)
		return k
	}
	for _, b := range []buffer{in, out} {
		switch {
		case b.err != nil:
			k.refuse(c, "%s: %w", b.name, b.err)
		case b.count > 0 && b.device != s.Device():
			k.refuse(c, "%s is memory of %v, the stream is one of %v", b.name, b.device, s.Device())
		case b.count > 0 && b.addr == 0:
			k.refuse(c, "%s is no device memory", b.name)
		}
	}
	return k
}

func (k *deviceArgs) reducing(c *inside, op kernel.Op) *deviceArgs {
	k.args.reducing(c, op)
	if op == kernel.Avg && k.out.name != "" {
		k.Divide = c.size
	}
	return k
}

func (k *deviceArgs) separate(c *inside) *deviceArgs {
	if k.err == nil && overlapOfDevice(k.in, k.out) == partial {
		k.refuse(c, "send and recv overlap in part; use the same slice or two separate ones")
	}
	return k
}

// separateParts is args.separateParts.
func (k *deviceArgs) separateParts(c *inside, part, whole buffer) *deviceArgs {
	if k.err != nil || overlapOfDevice(part, whole) == apart {
		return k
	}
	if overlapOfDevice(part, whole.part(c.rank, part.bytes)) != inPlace {
		k.refuse(c, "send and recv overlap; in place, the short slice is part %d of the long one", c.rank)
	}
	return k
}

// enqueue puts a device call into its stream, and opens the devices before the
// first.
func (c *inside) enqueue(ctx context.Context, k *deviceArgs) error {
	if k.err != nil {
		return k.err
	}
	if err := c.claim(k.name()); err != nil {
		return err
	}
	defer c.end()
	return c.heldEnqueue(ctx, k)
}

// haveDevices opens the devices unless they are open. k's stream is one of this
// rank's. The communicator is claimed.
func (c *inside) haveDevices(ctx context.Context, k *deviceArgs, dev *cuda.Device) error {
	if c.devices == nil {
		d, err := c.openDevices(ctx, dev)
		if err != nil {
			return c.openingError(k, err)
		}
		c.devices = d
	}
	if d := c.devices; d.device != dev {
		k.refuse(c, "a stream of %v; the communicator's device calls on this rank are on %v", dev, d.device)
		return k.err
	}
	return nil
}

// heldEnqueue is enqueue with the communicator claimed.
func (c *inside) heldEnqueue(ctx context.Context, k *deviceArgs) error {
	if err := ctx.Err(); err != nil {
		return c.cancel(ctx, &k.args)
	}
	if err := c.haveDevices(ctx, k, k.stream.Device()); err != nil {
		return err
	}
	d := c.devices
	if err := d.room(ctx); err != nil {
		if ctx.Err() != nil {
			return c.cancel(ctx, &k.args)
		}
		return c.deviceBroken(ctx, k.name(), err)
	}
	if fault, failed := c.ep.Aborted(); failed {
		return c.deviceFault(ctx, fault, k.name())
	}
	lent, place, err := d.lend(k)
	if err != nil {
		k.refuse(c, "%w", err)
		return k.err
	}
	c.seq++
	h := c.header(&k.args)
	c.engine.Announce(&h)
	if err := d.enter(k, h, lent, place); err != nil {
		return c.deviceBroken(ctx, engine.Describe(h), err)
	}
	return nil
}

// deviceBroken ends the communicator with an error of this rank's device, or of
// its group, and returns the first cause.
func (c *inside) deviceBroken(ctx context.Context, during string, err error) error {
	d := c.devices
	if d.group.Err() != nil && errors.Is(err, d.group.Err()) {
		d.groupFailed(err)
	} else {
		d.broken(during, err)
	}
	fault, _ := c.ep.Aborted()
	d.group.Abort(errorOf(fault))
	return c.deviceFault(ctx, fault, during)
}

// openingError is why the devices could not be opened: an error of a device, which
// all ranks have and which leaves the communicator as it was, or the failure of
// the communicator itself.
func (c *inside) openingError(k *deviceArgs, err error) error {
	var failed *RankError
	if errors.As(err, &failed) {
		failed.Op = fmt.Sprintf("%s on rank %d: %s", k.name(), c.rank, failed.Op)
		return failed
	}
	if fault, aborted := c.ep.Aborted(); aborted {
		return c.failDuring(context.Background(), fault, k.name()+": opening the devices", "")
	}
	return &RankError{Rank: -1, Op: fmt.Sprintf("%s on rank %d: opening the devices", k.name(), c.rank), Err: err}
}
