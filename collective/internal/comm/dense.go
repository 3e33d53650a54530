package comm

import (
	"context"
	"math"

	"github.com/treerun/treerun/collective/internal/devices"
	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// Dense is an AllReduce within a call that has claimed c. in and out are the same memory or do
// not overlap.
func (i *Inside) Dense(ctx context.Context, t kernel.DType, op kernel.Op, in, out []byte) error {
	a := Args{Args: engine.Args{In: in, Out: out, Work: kernel.Work{Op: op}}}
	a.setID(plan.AllReduce, -1, len(out)/t.Size(), t)
	return i.Comm.Go(ctx, &a, &i.Waiter)
}

// DenseUs predicts the time of Dense for the given number of bytes, in microseconds. It is the same on all ranks; NaN:
// not known.
func (i *Inside) DenseUs(bytes int) float64 {
	choice, _, err := i.Comm.Setup.Choose(plan.AllReduce, -1, bytes)
	if err != nil {
		return math.NaN()
	}
	return choice.PredictedUs
}

// DenseDevice is AllReduceDevice within a call that has claimed c. in and out are the same
// memory of the stream's device or do not overlap.
func (i *Inside) DenseDevice(ctx context.Context, s *cuda.Stream, t kernel.DType, op kernel.Op, in, out cuda.Addr,
	count int) error {
	bytes := int64(count) * int64(t.Size())
	k := DeviceArgs{
		Args:   Args{Args: engine.Args{ID: call.ID{Device: true}, Work: kernel.Work{Op: op}}},
		stream: s,
		send:   devices.Buffer{Name: "send", Device: s.Device(), Addr: in, Count: count, Bytes: bytes},
		recv:   devices.Buffer{Name: "recv", Device: s.Device(), Addr: out, Count: count, Bytes: bytes},
	}
	k.setID(plan.AllReduce, -1, count, t)
	return i.Comm.Devices.start(ctx, &k)
}

// OpenDevices opens the ranks' devices, of which dev is this one's, unless a device call has: all ranks
// call it together. An error is the caller's to return as it is.
func (i *Inside) OpenDevices(ctx context.Context, dev *cuda.Device) error {
	return i.Comm.Devices.have(ctx, NewArgs(call.ID{Kind: call.AllReduce, Device: true}), dev)
}

// DenseDeviceUs is DenseUs for DenseDevice, of devices that are open.
func (i *Inside) DenseDeviceUs(bytes int) float64 {
	choice, err := i.Comm.Devices.Session.Plans.Planner.Choose(plan.AllReduce, -1, int64(bytes))
	if err != nil {
		return math.NaN()
	}
	return choice.PredictedUs
}
