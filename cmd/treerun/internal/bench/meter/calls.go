package meter

import (
	"context"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
)

// call is one call of a collective.
type call[T collective.Number] struct {
	c          *collective.Comm
	send, recv []T
	op         collective.Op
	root       int
	spread     *spread                            // of a sparse collective, else nil
	onGPU      struct{ send, recv cuda.Slice[T] } // where the buffers are on a GPU
}

// collectiveOf is how a collective is called, and what it gives. The rest of it
// is in Collectives.
type collectiveOf[T collective.Number] struct {
	kind  plan.Kind // 0: it has no plan
	run   func(ctx context.Context, k *call[T]) error
	start func(k *call[T]) (collective.Request, error) // nil: there is no such form
	// device puts a call into a stream of a GPU; nil: the collective does not run there.
	device func(ctx context.Context, s *cuda.Stream, k *call[T], send, recv cuda.Slice[T]) error
	want   func(me, size, root, count int) []block // nil: nothing to compare
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
	type ctx = context.Context
	type request = collective.Request
	type stream = *cuda.Stream
	type slice = cuda.Slice[T]
	return map[string]collectiveOf[T]{
		"allreduce": {
			plan.AllReduce,
			func(x ctx, k *call[T]) error { return collective.AllReduce(x, k.c, k.send, k.recv, k.op) },
			func(k *call[T]) (request, error) { return collective.StartAllReduce(k.c, k.send, k.recv, k.op) },
			func(x ctx, s stream, k *call[T], send, recv slice) error {
				return collective.AllReduceDevice(x, k.c, s, send, recv, k.op)
			}, combined,
		},
		"reduce": {
			plan.Reduce,
			func(x ctx, k *call[T]) error { return collective.Reduce(x, k.c, k.send, k.recv, k.op, k.root) },
			func(k *call[T]) (request, error) { return collective.StartReduce(k.c, k.send, k.recv, k.op, k.root) },
			func(x ctx, s stream, k *call[T], send, recv slice) error {
				return collective.ReduceDevice(x, k.c, s, send, recv, k.op, k.root)
			}, atRoot(combined),
		},
		"broadcast": {
			plan.Broadcast,
			func(x ctx, k *call[T]) error { return collective.Broadcast(x, k.c, k.send, k.recv, k.root) },
			func(k *call[T]) (request, error) { return collective.StartBroadcast(k.c, k.send, k.recv, k.root) },
			func(x ctx, s stream, k *call[T], send, recv slice) error {
				return collective.BroadcastDevice(x, k.c, s, send, recv, k.root)
			}, rootsInput,
		},
		"allgather": {
			plan.AllGather,
			func(x ctx, k *call[T]) error { return collective.AllGather(x, k.c, k.send, k.recv) },
			func(k *call[T]) (request, error) { return collective.StartAllGather(k.c, k.send, k.recv) },
			func(x ctx, s stream, k *call[T], send, recv slice) error {
				return collective.AllGatherDevice(x, k.c, s, send, recv)
			}, allInputs,
		},
		"reducescatter": {
			plan.ReduceScatter,
			func(x ctx, k *call[T]) error { return collective.ReduceScatter(x, k.c, k.send, k.recv, k.op) },
			func(k *call[T]) (request, error) { return collective.StartReduceScatter(k.c, k.send, k.recv, k.op) },
			func(x ctx, s stream, k *call[T], send, recv slice) error {
				return collective.ReduceScatterDevice(x, k.c, s, send, recv, k.op)
			}, ownPart,
		},
		"alltoall": {
			plan.AllToAll,
			func(x ctx, k *call[T]) error { return collective.AllToAll(x, k.c, k.send, k.recv) },
			func(k *call[T]) (request, error) { return collective.StartAllToAll(k.c, k.send, k.recv) },
			nil, ownParts,
		},
		"gather": {
			plan.Gather,
			func(x ctx, k *call[T]) error { return collective.Gather(x, k.c, k.send, k.recv, k.root) },
			func(k *call[T]) (request, error) { return collective.StartGather(k.c, k.send, k.recv, k.root) },
			nil, atRoot(allInputs),
		},
		"scatter": {
			plan.Scatter,
			func(x ctx, k *call[T]) error { return collective.Scatter(x, k.c, k.send, k.recv, k.root) },
			func(k *call[T]) (request, error) { return collective.StartScatter(k.c, k.send, k.recv, k.root) },
			nil, partOfRoot,
		},
		"barrier": {
			plan.Barrier,
			func(x ctx, k *call[T]) error { return collective.Barrier(x, k.c) },
			func(k *call[T]) (request, error) { return collective.StartBarrier(k.c) },
			func(x ctx, s stream, k *call[T], _, _ slice) error { return collective.BarrierDevice(x, k.c, s) }, nil,
		},
		"sendrecv":         {0, sendRecv[T], nil, nil, inputBefore},
		"sparse-allreduce": sparseOf[T](),
	}
}

// sendRecv passes the data on round a ring of all ranks, as nccl-tests does.
func sendRecv[T collective.Number](ctx context.Context, k *call[T]) error {
	me, size := k.c.Rank(), k.c.Size()
	_, err := collective.SendRecv(ctx, k.c, k.send, (me+1)%size, k.recv, (me+size-1)%size, 0)
	return err
}

func inputBefore(me, size, _, count int) []block {
	return []block{{0, count, (me + size - 1) % size, 0}}
}

func allInputs(_, size, _, count int) []block {
	all := make([]block, size)
	for q := range all {
		all[q] = block{q * count, count, q, 0}
	}
	return all
}

func ownPart(me, _, _, count int) []block { return []block{{0, count, everybody, me * count}} }

func ownParts(me, size, _, count int) []block {
	all := make([]block, size)
	for q := range all {
		all[q] = block{q * count, count, q, me * count}
	}
	return all
}

func partOfRoot(me, _, root, count int) []block { return []block{{0, count, root, me * count}} }

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
