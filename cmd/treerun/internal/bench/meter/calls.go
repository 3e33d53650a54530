package meter

import (
	"context"

	"github.com/treerun/treerun/collective"
)

// call is one call of a collective.
type call[T collective.Number] struct {
	c          *collective.Comm
	send, recv []T
	op         collective.Op
	root       int
}

// collectiveOf is how a collective is called, and what it gives. The rest of it
// is in suite.Collectives.
type collectiveOf[T collective.Number] struct {
	run  func(ctx context.Context, k *call[T]) error
	want func(me, size, root, count int) []block // nil: nothing to compare
}

// block is a part of a result: what stands in recv from element at on.
type block struct {
	at, count int
	from      int // the rank whose input it is, or everybody
	offset    int // of its first element in that input
}

const everybody = -1 // the combined input of all ranks

// calls are the collectives by name.
func calls[T collective.Number]() map[string]collectiveOf[T] {
	return map[string]collectiveOf[T]{
		"allreduce": {func(ctx context.Context, k *call[T]) error {
			return collective.AllReduce(ctx, k.c, k.send, k.recv, k.op)
		}, combined},
		"reduce": {func(ctx context.Context, k *call[T]) error {
			return collective.Reduce(ctx, k.c, k.send, k.recv, k.op, k.root)
		}, atRoot(combined)},
		"broadcast": {func(ctx context.Context, k *call[T]) error {
			return collective.Broadcast(ctx, k.c, k.send, k.recv, k.root)
		}, rootsInput},
		"barrier": {func(ctx context.Context, k *call[T]) error { return collective.Barrier(ctx, k.c) }, nil},
	}
}

func combined(_, _, _, count int) []block { return []block{{0, count, everybody, 0}} }

func rootsInput(_, _, root, count int) []block { return []block{{0, count, root, 0}} }

// atRoot is for results that only the root has.
func atRoot(want func(me, size, root, count int) []block) func(me, size, root, count int) []block {
	return func(me, size, root, count int) []block {
		if me != root {
			return nil
		}
		return want(me, size, root, count)
	}
}

// opOf returns the operation of a name, Sum for "none".
func opOf(name string) collective.Op {
	for _, op := range []collective.Op{collective.Sum, collective.Prod, collective.Min, collective.Max, collective.Avg} {
		if op.String() == name {
			return op
		}
	}
	return collective.Sum
}
