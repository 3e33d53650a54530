package collective

import (
	"context"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/plan"
)

// AllReduce combines send of all ranks, element by element, with op, and stores the result in recv on every rank. send
// and recv have the same length on all ranks; they may be the same slice. The slices must not change during the call.
//
// If one rank makes calls of the same op, type and length in another order, as when it ranges over a map, elements of
// different calls are combined: the results are wrong, and no error is reported.
//
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllReduce[T Element](ctx context.Context, c *Comm, send, recv []T, op Op) error {
	return c.inner().Run(ctx, reduceArgs(new(comm.Args), c, plan.AllReduce, -1, send, recv, op))
}

// Reduce combines send of all ranks, element by element, with op, and stores the result in recv on rank root. send has
// the same length on all ranks. recv is used on root only, where it has that length too and may be send. After an error
// the contents of recv are undefined, and of send where it shares memory with recv.
func Reduce[T Element](ctx context.Context, c *Comm, send, recv []T, op Op, root int) error {
	return c.inner().Run(ctx, reduceArgs(new(comm.Args), c, plan.Reduce, root, send, recv, op))
}

// Broadcast copies send of rank root to recv of every rank. recv has the same length on all ranks. send is used on root
// only, where it has that length too and may be recv. After an error the contents of recv are undefined, and of send
// where it shares memory with recv.
func Broadcast[T any](ctx context.Context, c *Comm, send, recv []T, root int) error {
	return c.inner().Run(ctx, argsOf(new(comm.Args), c, plan.Broadcast, root, send, recv))
}

// AllGather stores send of all ranks, in rank order, in recv on every rank. send has the same length on all ranks, and
// recv is longer by a factor of the number of ranks. In place, send is the rank's own part of recv. After an error the
// contents of recv are undefined, and of send where it shares memory with recv.
func AllGather[T any](ctx context.Context, c *Comm, send, recv []T) error {
	return c.inner().Run(ctx, argsOf(new(comm.Args), c, plan.AllGather, -1, send, recv))
}

// ReduceScatter combines send of all ranks, element by element, with op, and stores part i of the result in recv on
// rank i. recv has the same length on all ranks, and send is longer by a factor of the number of ranks. In place, recv
// is the rank's own part of send, and the other parts of send stay unchanged. After an error the contents of recv are
// undefined, and of send where it shares memory with recv.
func ReduceScatter[T Element](ctx context.Context, c *Comm, send, recv []T, op Op) error {
	return c.inner().Run(ctx, reduceArgs(new(comm.Args), c, plan.ReduceScatter, -1, send, recv, op))
}

// AllToAll copies part j of send of rank i to part i of recv of rank j. send and recv have one part for every rank, all
// of the same length on all ranks; they may be the same slice. After an error the contents of recv are undefined, and
// of send where it shares memory with recv.
func AllToAll[T any](ctx context.Context, c *Comm, send, recv []T) error {
	return c.inner().Run(ctx, argsOf(new(comm.Args), c, plan.AllToAll, -1, send, recv))
}

// Gather stores send of all ranks, in rank order, in recv on rank root. send has the same length on all ranks; recv is
// used on root only. In place, send of root is its own part of recv. After an error the contents of recv are undefined,
// and of send where it shares memory with recv.
func Gather[T any](ctx context.Context, c *Comm, send, recv []T, root int) error {
	return c.inner().Run(ctx, argsOf(new(comm.Args), c, plan.Gather, root, send, recv))
}

// Scatter copies part i of send of rank root to recv of rank i. recv has the same length on all ranks; send is used on
// root only. In place, recv of root is its own part of send. After an error the contents of recv are undefined, and of
// send where it shares memory with recv.
func Scatter[T any](ctx context.Context, c *Comm, send, recv []T, root int) error {
	return c.inner().Run(ctx, argsOf(new(comm.Args), c, plan.Scatter, root, send, recv))
}

// Barrier returns when all ranks have called it.
func Barrier(ctx context.Context, c *Comm) error {
	return c.inner().Run(ctx, new(comm.Args).SetBarrier())
}

// AllReducePreMul is AllReduce with Sum, where every rank multiplies its input by its own factor first. send is not
// changed. Products of 16-bit floating-point numbers are rounded before they are added. After an error the contents of
// recv are undefined, and of send where it shares memory with recv.
func AllReducePreMul[T Element](ctx context.Context, c *Comm, send, recv []T, factor T) error {
	return c.inner().Run(ctx, preMultiplied(reduceArgs(new(comm.Args), c, plan.AllReduce, -1, send, recv, Sum), factor))
}

// ReducePreMul is Reduce with the sum of AllReducePreMul.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReducePreMul[T Element](ctx context.Context, c *Comm, send, recv []T, factor T, root int) error {
	return c.inner().Run(ctx, preMultiplied(reduceArgs(new(comm.Args), c, plan.Reduce, root, send, recv, Sum), factor))
}

// ReduceScatterPreMul is ReduceScatter with the sum of AllReducePreMul.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReduceScatterPreMul[T Element](ctx context.Context, c *Comm, send, recv []T, factor T) error {
	a := reduceArgs(new(comm.Args), c, plan.ReduceScatter, -1, send, recv, Sum)
	return c.inner().Run(ctx, preMultiplied(a, factor))
}
