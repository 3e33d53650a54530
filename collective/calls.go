package collective

import (
	"context"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/plan"
)

// AllReduce combines send of all ranks, element by element, with op, and gives
// every rank the result in recv. send and recv have the same length on all
// ranks; they may be the same slice. The slices must not change during the
// call.
//
// Calls of the same op, type and length that come in another order on one rank, as those of a range over a map do,
// combine what does not belong together: the results are wrong, and there is no error.
//
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllReduce[T Number](ctx context.Context, c *Comm, send, recv []T, op Op) error {
	return c.inner().Run(ctx, reduceArgs(new(comm.Args), c, plan.AllReduce, -1, send, recv, op))
}

// Reduce combines send of all ranks, element by element, with op, and gives
// the result to rank root in recv. send has the same length on all ranks. recv
// is used on root only, where it has that length too and may be send.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func Reduce[T Number](ctx context.Context, c *Comm, send, recv []T, op Op, root int) error {
	return c.inner().Run(ctx, reduceArgs(new(comm.Args), c, plan.Reduce, root, send, recv, op))
}

// Broadcast gives every rank, in recv, what rank root has in send. recv has
// the same length on all ranks. send is used on root only, where it has that
// length too and may be recv.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func Broadcast[T Number](ctx context.Context, c *Comm, send, recv []T, root int) error {
	return c.inner().Run(ctx, argsOf(new(comm.Args), c, plan.Broadcast, root, send, recv))
}

// AllGather gives every rank, in recv, send of all ranks, in the order of the
// ranks. send has the same length on all ranks, recv that length times the
// number of ranks. In place, send is the rank's own part of recv.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllGather[T Number](ctx context.Context, c *Comm, send, recv []T) error {
	return c.inner().Run(ctx, argsOf(new(comm.Args), c, plan.AllGather, -1, send, recv))
}

// ReduceScatter combines send of all ranks, element by element, with op, and
// gives rank i part i of the result in recv. recv has the same length on all
// ranks, send that length times the number of ranks. In place, recv is the
// rank's own part of send, whose other parts then keep what they have.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReduceScatter[T Number](ctx context.Context, c *Comm, send, recv []T, op Op) error {
	return c.inner().Run(ctx, reduceArgs(new(comm.Args), c, plan.ReduceScatter, -1, send, recv, op))
}

// AllToAll gives rank j, as part i of its recv, part j of send of rank i. send
// and recv have one part for every rank, all of the same length on all ranks;
// they may be the same slice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllToAll[T Number](ctx context.Context, c *Comm, send, recv []T) error {
	return c.inner().Run(ctx, argsOf(new(comm.Args), c, plan.AllToAll, -1, send, recv))
}

// Gather gives rank root, in recv, send of all ranks, in the order of the
// ranks. send has the same length on all ranks; recv is used on root only. In
// place, send of root is its own part of recv.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func Gather[T Number](ctx context.Context, c *Comm, send, recv []T, root int) error {
	return c.inner().Run(ctx, argsOf(new(comm.Args), c, plan.Gather, root, send, recv))
}

// Scatter gives rank i, in recv, part i of what rank root has in send. recv has
// the same length on all ranks; send is used on root only. In place, recv of
// root is its own part of send.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func Scatter[T Number](ctx context.Context, c *Comm, send, recv []T, root int) error {
	return c.inner().Run(ctx, argsOf(new(comm.Args), c, plan.Scatter, root, send, recv))
}

// Barrier returns when all ranks have called it.
func Barrier(ctx context.Context, c *Comm) error {
	return c.inner().Run(ctx, barrierArgs(new(comm.Args)))
}

// AllReducePreMul is AllReduce with Sum of what every rank has multiplied by
// its own factor. send is not changed. The product of 16-bit floating-point
// numbers is rounded before it is added.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllReducePreMul[T Number](ctx context.Context, c *Comm, send, recv []T, factor T) error {
	return c.inner().Run(ctx, preMultiplied(reduceArgs(new(comm.Args), c, plan.AllReduce, -1, send, recv, Sum), factor))
}

// ReducePreMul is Reduce with the sum of AllReducePreMul.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReducePreMul[T Number](ctx context.Context, c *Comm, send, recv []T, factor T, root int) error {
	return c.inner().Run(ctx, preMultiplied(reduceArgs(new(comm.Args), c, plan.Reduce, root, send, recv, Sum), factor))
}

// ReduceScatterPreMul is ReduceScatter with the sum of AllReducePreMul.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReduceScatterPreMul[T Number](ctx context.Context, c *Comm, send, recv []T, factor T) error {
	a := reduceArgs(new(comm.Args), c, plan.ReduceScatter, -1, send, recv, Sum)
	return c.inner().Run(ctx, preMultiplied(a, factor))
}
