//go:build linux

package bench

import (
	"context"
	"errors"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
)

// call is one call of a collective.
type call[T collective.Number] struct {
	c          *collective.Comm
	send, recv []T
	op         collective.Op
	root       int
	spread     *spread       // of a sparse collective, else nil
	stream     *cuda.Stream  // of a GPU that it is called on; nil: on the host
	input, out cuda.Slice[T] // send and recv on that GPU
}

// collectiveFuncs holds the functions that call a collective. The rest of its description is in allCollectives.
type collectiveFuncs[T collective.Number] struct {
	run   func(ctx context.Context, k *call[T]) error
	start func(k *call[T]) (collective.Request, error) // nil: there is no such form
	// device puts a call into a stream of a GPU.
	device func(ctx context.Context, k *call[T]) error
}

// functions are those of the collectives, by name.
func functions[T collective.Number]() map[string]collectiveFuncs[T] {
	type ctx = context.Context
	type request = collective.Request
	op := func(k *call[T]) collective.Op { return k.op }
	root := func(k *call[T]) int { return k.root }
	return map[string]collectiveFuncs[T]{
		"allreduce": withArg(op, collective.AllReduce[T], collective.StartAllReduce[T], collective.AllReduceDevice[T]),
		"reduce": {
			func(x ctx, k *call[T]) error { return collective.Reduce(x, k.c, k.send, k.recv, k.op, k.root) },
			func(k *call[T]) (request, error) { return collective.StartReduce(k.c, k.send, k.recv, k.op, k.root) },
			func(x ctx, k *call[T]) error {
				return collective.ReduceDevice(x, k.c, k.stream, k.input, k.out, k.op, k.root)
			},
		},
		"broadcast": withArg(root, collective.Broadcast[T], collective.StartBroadcast[T], collective.BroadcastDevice[T]),
		"allgather": {
			func(x ctx, k *call[T]) error { return collective.AllGather(x, k.c, k.send, k.recv) },
			func(k *call[T]) (request, error) { return collective.StartAllGather(k.c, k.send, k.recv) },
			func(x ctx, k *call[T]) error { return collective.AllGatherDevice(x, k.c, k.stream, k.input, k.out) },
		},
		"reducescatter": withArg(op, collective.ReduceScatter[T], collective.StartReduceScatter[T],
			collective.ReduceScatterDevice[T]),
		"alltoall": {
			func(x ctx, k *call[T]) error { return collective.AllToAll(x, k.c, k.send, k.recv) },
			func(k *call[T]) (request, error) { return collective.StartAllToAll(k.c, k.send, k.recv) },
			func(x ctx, k *call[T]) error { return collective.AllToAllDevice(x, k.c, k.stream, k.input, k.out) },
		},
		"gather":  withArg(root, collective.Gather[T], collective.StartGather[T], collective.GatherDevice[T]),
		"scatter": withArg(root, collective.Scatter[T], collective.StartScatter[T], collective.ScatterDevice[T]),
		"barrier": {
			func(x ctx, k *call[T]) error { return collective.Barrier(x, k.c) },
			func(k *call[T]) (request, error) { return collective.StartBarrier(k.c) },
			func(x ctx, k *call[T]) error { return collective.BarrierDevice(x, k.c, k.stream) },
		},
		"sendrecv": {run: sendRecv[T], device: func(x ctx, k *call[T]) error {
			me, size := k.c.Rank(), k.c.Size()
			return collective.SendRecvDevice(x, k.c, k.stream, k.input, (me+1)%size, k.out, (me+size-1)%size)
		}},
		"sparse-allreduce": sparseCalls[T](),
	}
}

// withArg returns the functions of a collective with two buffers and one argument, an operation or a root.
func withArg[T collective.Number, A any](arg func(*call[T]) A,
	run func(ctx context.Context, c *collective.Comm, send, recv []T, arg A) error,
	start func(c *collective.Comm, send, recv []T, arg A) (collective.Request, error),
	device func(ctx context.Context, c *collective.Comm, s *cuda.Stream, send, recv cuda.Slice[T], arg A) error,
) collectiveFuncs[T] {
	return collectiveFuncs[T]{
		func(ctx context.Context, k *call[T]) error { return run(ctx, k.c, k.send, k.recv, arg(k)) },
		func(k *call[T]) (collective.Request, error) { return start(k.c, k.send, k.recv, arg(k)) },
		func(ctx context.Context, k *call[T]) error { return device(ctx, k.c, k.stream, k.input, k.out, arg(k)) },
	}
}

// sendRecv passes the data around a ring of all ranks, as nccl-tests does.
func sendRecv[T collective.Number](ctx context.Context, k *call[T]) error {
	me, size := k.c.Rank(), k.c.Size()
	_, err := collective.SendRecv(ctx, k.c, k.send, (me+1)%size, k.recv, (me+size-1)%size, 0)
	return err
}

// prepared is a case that is ready to be called.
type prepared[T collective.Number] struct {
	collectiveFuncs[T]
	calls    []call[T]            // one, or those that are in flight together
	requests []collective.Request // of calls
	spread   *spread              // of a sparse collective, else nil
	restore  func() error         // restores the input if the last call has changed it
}

// once makes one call and waits for it, or all calls and waits for all.
func (r *prepared[T]) once(ctx context.Context) error {
	return errors.Join(r.issue(ctx), r.sync(ctx))
}

// sync waits for calls on a GPU; those on the host are done.
func (r *prepared[T]) sync(ctx context.Context) error {
	if r.calls[0].stream == nil {
		return nil
	}
	return r.calls[0].c.SyncDevice(ctx, r.calls[0].stream)
}

// issue is once without the wait on a GPU, which several may have in common.
func (r *prepared[T]) issue(ctx context.Context) error {
	if r.calls[0].stream != nil {
		for i := range r.calls {
			if err := r.device(ctx, &r.calls[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(r.calls) == 1 {
		return r.run(ctx, &r.calls[0])
	}
	for i := range r.calls {
		request, err := r.start(&r.calls[i])
		if err != nil {
			return err
		}
		r.requests[i] = request
	}
	for _, request := range r.requests {
		if err := request.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
