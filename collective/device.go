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
func AllReduceDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], op Op) error {
	return c.inner().Devices.Enqueue(ctx, deviceReduceArgs(c, plan.AllReduce, -1, s, send, recv, op))
}

// ReduceDevice is Reduce on device memory: see SyncDevice. recv is used on root
// only.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReduceDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], op Op,
	root int) error {
	return c.inner().Devices.Enqueue(ctx, deviceReduceArgs(c, plan.Reduce, root, s, send, recv, op))
}

// BroadcastDevice is Broadcast on device memory: see SyncDevice. send is used on
// root only.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func BroadcastDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], root int) error {
	return c.inner().Devices.Enqueue(ctx, deviceArgs(new(comm.DeviceArgs), c, plan.Broadcast, root, s, send, recv))
}

// AllGatherDevice is AllGather on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllGatherDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T]) error {
	return c.inner().Devices.Enqueue(ctx, deviceArgs(new(comm.DeviceArgs), c, plan.AllGather, -1, s, send, recv))
}

// ReduceScatterDevice is ReduceScatter on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReduceScatterDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T],
	op Op) error {
	return c.inner().Devices.Enqueue(ctx, deviceReduceArgs(c, plan.ReduceScatter, -1, s, send, recv, op))
}

// AllToAllDevice is AllToAll on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllToAllDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T]) error {
	return c.inner().Devices.Enqueue(ctx, deviceArgs(new(comm.DeviceArgs), c, plan.AllToAll, -1, s, send, recv))
}

// GatherDevice is Gather on device memory: see SyncDevice. recv is used on root
// only.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func GatherDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], root int) error {
	return c.inner().Devices.Enqueue(ctx, deviceArgs(new(comm.DeviceArgs), c, plan.Gather, root, s, send, recv))
}

// ScatterDevice is Scatter on device memory: see SyncDevice. send is used on
// root only.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ScatterDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], root int) error {
	return c.inner().Devices.Enqueue(ctx, deviceArgs(new(comm.DeviceArgs), c, plan.Scatter, root, s, send, recv))
}

// BarrierDevice lets the stream go on when the streams of all ranks have come to
// it: see SyncDevice.
func BarrierDevice(ctx context.Context, c *Comm, s *cuda.Stream) error {
	k := deviceArgs(new(comm.DeviceArgs), c, plan.Barrier, -1, s, cuda.Slice[uint8]{}, cuda.Slice[uint8]{})
	barrierArgs(&k.Args)
	return c.inner().Devices.Enqueue(ctx, k)
}

// AllReducePreMulDevice is AllReducePreMul on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllReducePreMulDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T],
	factor T) error {
	k := deviceReduceArgs(c, plan.AllReduce, -1, s, send, recv, Sum)
	return c.inner().Devices.Enqueue(ctx, devicePreMul(k, factor))
}

// ReducePreMulDevice is ReducePreMul on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReducePreMulDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T], factor T,
	root int) error {
	return c.inner().Devices.Enqueue(ctx, devicePreMul(deviceReduceArgs(c, plan.Reduce, root, s, send, recv, Sum), factor))
}

// ReduceScatterPreMulDevice is ReduceScatterPreMul on device memory: see SyncDevice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReduceScatterPreMulDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, send, recv cuda.Slice[T],
	factor T) error {
	k := deviceReduceArgs(c, plan.ReduceScatter, -1, s, send, recv, Sum)
	return c.inner().Devices.Enqueue(ctx, devicePreMul(k, factor))
}

// SendDevice sends data to another rank, which receives it with RecvDevice or SendRecvDevice: see SyncDevice. Only
// the two ranks call. The devices are open: all ranks have made another device call before, such as BarrierDevice.
// Messages from one rank to another arrive in the order in which they were sent, and have no tags. One of another
// length or type than is received is an ErrMismatch.
//
// What a rank calls on a communicator is done in that order, on whichever streams. A message that is longer than the
// links hold, some hundred KiB to MiB, is sent when the other rank has come to receive it: where two ranks both send
// first they wait for ever, and so do ranks in a circle, or where one rank sends before a collective what the other
// receives after it. SendRecvDevice does both at once.
func SendDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, data cuda.Slice[T], to int) error {
	return c.inner().Devices.Exchange(ctx, "SendDevice", s, dtypeOf[T](), messageOn("data", data, to), nil)
}

// RecvDevice receives into data, all of it, what another rank sends this one: see SendDevice.
// After an error the contents of data are undefined.
func RecvDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, data cuda.Slice[T], from int) error {
	return c.inner().Devices.Exchange(ctx, "RecvDevice", s, dtypeOf[T](), nil, messageOn("data", data, from))
}

// SendRecvDevice is SendDevice of send to rank to and RecvDevice of recv from rank from, side by side: ranks that do
// this in a circle do not wait for each other for ever, however long the messages are. A rank that is both to and from
// copies. The slices do not overlap.
// After an error the contents of recv are undefined.
func SendRecvDevice[T Number](ctx context.Context, c *Comm, s *cuda.Stream, send cuda.Slice[T], to int,
	recv cuda.Slice[T], from int) error {
	return c.inner().Devices.Exchange(ctx, "SendRecvDevice", s, dtypeOf[T](), messageOn("send", send, to),
		messageOn("recv", recv, from))
}

// SyncDevice waits until stream s has done all that was put into it, and reports
// whether the device calls of c before that are right: a call like AllReduceDevice
// returns when it is in the stream, long before anybody can know. Only what s has
// computed when SyncDevice returned nil may be used; where it returns an error,
// which is a *RankError with the first cause, as every later call of c does, the
// results of calls since the last SyncDevice are void, and the stream is through
// all the same. To wait for s in another way is no harm, but does not tell.
//
// A ctx that ends is a failure of the communicator on all ranks, as with every
// call. A stream of another device than that of c's calls is waited for, too.
func (c *Comm) SyncDevice(ctx context.Context, s *cuda.Stream) error {
	return c.inner().Devices.Sync(ctx, s)
}

// DeviceChoice is Choice for device calls, after the first of them: before it there is
// none, and its time is NaN.
func (c *Comm) DeviceChoice(kind plan.Kind, root, bytes int) (Choice, error) {
	if c.inner().Devices.Session == nil {
		return Choice{PredictedUs: math.NaN()}, nil
	}
	choice, err := c.inner().Devices.Plans.Choose(kind, root, int64(bytes))
	if err != nil {
		return Choice{}, err
	}
	return choiceOf(choice, choice.Plan.Digest()), nil
}

// DeviceGraph returns what is known of the links between the ranks' devices, nil
// before the first device call. It must not be changed.
func (c *Comm) DeviceGraph() *topo.Graph {
	if c.inner().Devices.Session == nil {
		return nil
	}
	return c.inner().Devices.Graph
}
