package collective

import (
	"context"
	"fmt"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/transport"
)

// AllReduce combines send of all ranks, element by element, with op, and gives
// every rank the result in recv. send and recv have the same length on all
// ranks; they may be the same slice. The slices must not change during the
// call.
func AllReduce[T Number](ctx context.Context, c *Comm, send, recv []T, op Op) error {
	if err := c.begin(plan.AllReduce); err != nil {
		return err
	}
	defer c.end()
	if len(send) != len(recv) {
		return c.argument(plan.AllReduce, "send has %d elements, recv %d", len(send), len(recv))
	}
	if !op.valid() {
		return c.argument(plan.AllReduce, "no such operation: %d", op)
	}
	c.call.In, c.call.Out = bytesOf(send), bytesOf(recv)
	if err := c.separate(plan.AllReduce); err != nil {
		return err
	}
	if err := run[T](ctx, c, plan.AllReduce, op, -1, len(recv)); err != nil {
		return err
	}
	if op == Avg {
		kernel.Scale(c.call.DType, c.call.Out, c.size)
	}
	return nil
}

// Reduce combines send of all ranks, element by element, with op, and gives
// the result to rank root in recv. send has the same length on all ranks. recv
// is used on root only, where it has that length too and may be send.
func Reduce[T Number](ctx context.Context, c *Comm, send, recv []T, op Op, root int) error {
	if err := c.begin(plan.Reduce); err != nil {
		return err
	}
	defer c.end()
	if err := c.rootExists(plan.Reduce, root); err != nil {
		return err
	}
	if !op.valid() {
		return c.argument(plan.Reduce, "no such operation: %d", op)
	}
	c.call.In, c.call.Out = bytesOf(send), nil
	if c.rank == root {
		if len(send) != len(recv) {
			return c.argument(plan.Reduce, "send has %d elements, recv %d", len(send), len(recv))
		}
		c.call.Out = bytesOf(recv)
		if err := c.separate(plan.Reduce); err != nil {
			return err
		}
	}
	if err := run[T](ctx, c, plan.Reduce, op, root, len(send)); err != nil {
		return err
	}
	if op == Avg && c.rank == root {
		kernel.Scale(c.call.DType, c.call.Out, c.size)
	}
	return nil
}

// Broadcast gives every rank, in recv, what rank root has in send. recv has
// the same length on all ranks. send is used on root only, where it has that
// length too and may be recv.
func Broadcast[T Number](ctx context.Context, c *Comm, send, recv []T, root int) error {
	if err := c.begin(plan.Broadcast); err != nil {
		return err
	}
	defer c.end()
	if err := c.rootExists(plan.Broadcast, root); err != nil {
		return err
	}
	c.call.In, c.call.Out = nil, bytesOf(recv)
	if c.rank == root {
		if len(send) != len(recv) {
			return c.argument(plan.Broadcast, "send has %d elements, recv %d", len(send), len(recv))
		}
		c.call.In = bytesOf(send)
		if err := c.separate(plan.Broadcast); err != nil {
			return err
		}
	}
	return run[T](ctx, c, plan.Broadcast, 0, root, len(recv))
}

// Barrier returns when all ranks have called it.
func Barrier(ctx context.Context, c *Comm) error {
	if err := c.begin(plan.Barrier); err != nil {
		return err
	}
	defer c.end()
	c.call.In, c.call.Out = nil, nil
	return run[uint8](ctx, c, plan.Barrier, Sum, -1, 0)
}

// run makes the call whose buffers stand in c.call.
func run[T Number](ctx context.Context, c *Comm, kind plan.Kind, op Op, root, count int) error {
	dt := dtypeOf[T]()
	h := &c.call.Header
	c.seq++
	h.Seq, h.Count, h.Root = c.seq, uint64(count), int32(root)
	h.Kind, h.Op, h.DType = uint8(kind), uint8(op), uint8(dt)
	if kind == plan.Barrier {
		h.Op, h.DType = 0, 0
	}
	c.call.DType, c.call.Op = dt, kernel.Op(op)
	bytes := count * dt.Size()
	if kind.HasParts() {
		bytes *= c.size
	}
	pr, err := c.plans.program(kind, root, bytes)
	if err != nil { // the others wait for this rank
		c.ep.Abort(transport.Fault{Rank: c.rank, Text: exec.FaultLink + err.Error()})
		fault, _ := c.ep.Aborted()
		return c.fail(ctx, fault)
	}
	fault, failed := pr.Run(ctx, &c.call, &c.waiter)
	if failed {
		return c.fail(ctx, fault)
	}
	return nil
}

func (c *Comm) rootExists(kind plan.Kind, root int) error {
	if root < 0 || root >= c.size {
		return c.argument(kind, "root %d of %d ranks", root, c.size)
	}
	return nil
}

// separate refuses buffers that overlap in part.
func (c *Comm) separate(kind plan.Kind) error {
	if overlapOf(c.call.In, c.call.Out) == partial {
		return c.argument(kind, "send and recv overlap in part; use the same slice or two separate ones")
	}
	return nil
}

func (c *Comm) argument(kind plan.Kind, format string, args ...any) error {
	return fmt.Errorf("collective: %s on rank %d: %w: %s", exec.CallName(kind), c.rank, ErrArgument, fmt.Sprintf(format, args...))
}
