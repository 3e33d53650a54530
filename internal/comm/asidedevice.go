package comm

import (
	"context"
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// asideDenseDevice is Side.DenseDevice.
func (c *Comm) asideDenseDevice(ctx context.Context, s *cuda.Stream, t kernel.DType, op kernel.Op, in, out cuda.Addr,
	count int) error {
	bytes := int64(count) * int64(t.Size())
	k := DeviceArgs{
		Args:   Args{Kind: plan.AllReduce, Root: -1, Count: count, Work: kernel.Work{DType: t, Op: op}, device: true},
		stream: s,
		In:     Buffer{name: "send", device: s.Device(), addr: in, count: count, bytes: bytes},
		Out:    Buffer{name: "recv", device: s.Device(), addr: out, count: count, bytes: bytes},
	}
	return c.heldEnqueue(ctx, &k)
}

// asideDenseDeviceUs is Side.DenseDeviceUs.
func (c *Comm) asideDenseDeviceUs(ctx context.Context, dev *cuda.Device, bytes int) (float64, error) {
	k := DeviceArgs{Args: Args{Kind: plan.AllReduce, device: true}}
	if err := c.haveDevices(ctx, &k, dev); err != nil {
		return 0, err
	}
	choice, err := c.Devices.Plans.Choose(plan.AllReduce, -1, int64(bytes))
	if err != nil {
		return 0, err
	}
	return choice.PredictedUs, nil
}

// asideFailDevice makes an error of this rank's device the fault of all links of c,
// and returns the first fault.
func (c *Comm) asideFailDevice(ctx context.Context, during string, cause error) error {
	text := fmt.Sprintf("%srank %d in %s: %v", faultDevice, c.Rank, during, cause)
	err := c.asideFail(ctx, transport.Fault{Rank: c.Rank, Text: text}, during)
	if c.err.Rank == c.Rank && errors.Is(err, ErrDevice) {
		c.err.Err = &deviceError{text: c.err.Err.Error(), cause: cause}
	}
	return err
}
