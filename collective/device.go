package collective

import (
	"context"
	"math"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/topo"
)

// AllReduceDevice is AllReduce on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllReduceDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], op Op) error {
	return c.inner().Devices.Enqueue(ctx, deviceReduceArgs(c, plan.AllReduce, -1, s, send, recv, op))
}

// ReduceDevice is Reduce on device memory: see SyncDevice. recv is used on root
// only.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReduceDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], op Op,
	root int) error {
	return c.inner().Devices.Enqueue(ctx, deviceReduceArgs(c, plan.Reduce, root, s, send, recv, op))
}

// BroadcastDevice is Broadcast on device memory: see SyncDevice. send is used on
// root only.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func BroadcastDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T],
	root int) error {
	return c.inner().Devices.Enqueue(ctx, deviceArgs(new(comm.DeviceArgs), c, plan.Broadcast, root, s, send, recv))
}

// AllGatherDevice is AllGather on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllGatherDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T]) error {
	return c.inner().Devices.Enqueue(ctx, deviceArgs(new(comm.DeviceArgs), c, plan.AllGather, -1, s, send, recv))
}

// ReduceScatterDevice is ReduceScatter on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReduceScatterDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T],
	op Op) error {
	return c.inner().Devices.Enqueue(ctx, deviceReduceArgs(c, plan.ReduceScatter, -1, s, send, recv, op))
}

// AllToAllDevice is AllToAll on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllToAllDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T]) error {
	return c.inner().Devices.Enqueue(ctx, deviceArgs(new(comm.DeviceArgs), c, plan.AllToAll, -1, s, send, recv))
}

// GatherDevice is Gather on device memory: see SyncDevice. recv is used on root
// only.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func GatherDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], root int) error {
	return c.inner().Devices.Enqueue(ctx, deviceArgs(new(comm.DeviceArgs), c, plan.Gather, root, s, send, recv))
}

// ScatterDevice is Scatter on device memory: see SyncDevice. send is used on
// root only.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ScatterDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], root int) error {
	return c.inner().Devices.Enqueue(ctx, deviceArgs(new(comm.DeviceArgs), c, plan.Scatter, root, s, send, recv))
}

// BarrierDevice delays the later work of the stream until the streams of all ranks have reached it: see SyncDevice.
func BarrierDevice(ctx context.Context, c *Comm, s *cuda.Stream) error {
	k := deviceArgs(new(comm.DeviceArgs), c, plan.Barrier, -1, s, cuda.Slice[uint8]{}, cuda.Slice[uint8]{})
	k.SetBarrier()
	return c.inner().Devices.Enqueue(ctx, k)
}

// AllReducePreMulDevice is AllReducePreMul on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllReducePreMulDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T],
	factor T) error {
	k := deviceReduceArgs(c, plan.AllReduce, -1, s, send, recv, Sum)
	return c.inner().Devices.Enqueue(ctx, devicePreMul(k, factor))
}

// ReducePreMulDevice is ReducePreMul on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReducePreMulDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], factor T,
	root int) error {
	return c.inner().Devices.Enqueue(ctx, devicePreMul(deviceReduceArgs(c, plan.Reduce, root, s, send, recv, Sum), factor))
}

// ReduceScatterPreMulDevice is ReduceScatterPreMul on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReduceScatterPreMulDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T],
	factor T) error {
	k := deviceReduceArgs(c, plan.ReduceScatter, -1, s, send, recv, Sum)
	return c.inner().Devices.Enqueue(ctx, devicePreMul(k, factor))
}

// SendDevice sends data to another rank, which receives it with RecvDevice or SendRecvDevice: see SyncDevice. Only the
// two ranks call. The devices must be open: all ranks have made another device call before, such as BarrierDevice.
// Messages from one rank to another arrive in the order in which they were sent, and have no tags. If the receiver
// expects another length or type, the call fails with ErrMismatch.
//
// The calls of a rank on a communicator are done in order, on whichever streams. A message that is longer than the
// capacity of the links, some hundred KiB to MiB, is sent once the other rank has reached its receive. Two ranks that
// both send first deadlock, and so do ranks in a cycle, and ranks of which one sends before a collective and the other
// receives after it. SendRecvDevice sends and receives at once.
func SendDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, data cuda.Slice[T], to int) error {
	return c.inner().Devices.Exchange(ctx, "SendDevice", s, dtypeOf[T](), messageOn("data", data, to), nil)
}

// RecvDevice receives a message from another rank, which fills all of data: see SendDevice. After an error the contents
// of data are undefined.
func RecvDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, data cuda.Slice[T], from int) error {
	return c.inner().Devices.Exchange(ctx, "RecvDevice", s, dtypeOf[T](), nil, messageOn("data", data, from))
}

// SendRecvDevice is SendDevice of send to rank to and RecvDevice of recv from rank from, both at once: ranks that do
// this in a cycle do not deadlock, whatever the length of the messages. A rank that is both to and from copies. The
// slices do not overlap. After an error the contents of recv are undefined.
func SendRecvDevice[T Element](ctx context.Context, c *Comm, s *cuda.Stream, send cuda.Slice[T], to int,
	recv cuda.Slice[T], from int) error {
	return c.inner().Devices.Exchange(ctx, "SendRecvDevice", s, dtypeOf[T](), messageOn("send", send, to),
		messageOn("recv", recv, from))
}

// SyncDevice waits until stream s has finished all its work, and reports whether the earlier device calls of c are
// correct: a call such as AllReduceDevice returns when it is in the stream, long before its outcome is known. Use only
// results of s after SyncDevice has returned nil. If it returns an error, a *RankError with the first cause, the
// results of calls since the last SyncDevice are invalid, every later call of c returns the same error, and the stream
// has finished nevertheless. Other ways to wait for s are harmless, but do not report whether the calls were correct.
//
// If ctx ends, the communicator fails on all ranks, as with every call. SyncDevice also waits for a stream of another
// device than that of c's calls.
func (c *Comm) SyncDevice(ctx context.Context, s *cuda.Stream) error {
	return c.inner().Devices.Sync(ctx, s)
}

// DeviceChoice is Choice for device calls, after the first of them. Before the first one it returns no plan, with a
// predicted time of NaN.
func (c *Comm) DeviceChoice(kind plan.Kind, root, bytes int) (Choice, error) {
	if c.inner().Devices.Session == nil {
		return Choice{PredictedUs: math.NaN()}, nil
	}
	choice, err := c.inner().Devices.Session.Plans.Planner.Choose(kind, root, int64(bytes))
	if err != nil {
		return Choice{}, err
	}
	return choiceOf(choice, choice.Chosen.Plan.Digest()), nil
}

// DeviceGraph returns the graph of the links between the ranks' devices, nil before the first device call. The caller
// must not change it.
func (c *Comm) DeviceGraph() *topo.Graph {
	if c.inner().Devices.Session == nil {
		return nil
	}
	return c.inner().Devices.Session.Graph
}
