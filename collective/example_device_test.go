package collective_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/topo"
)

// A call on GPU memory is put into a stream, and SyncDevice reports whether it was correct.
func ExampleAllReduceDevice() {
	step := func(ctx context.Context, c *collective.Comm, gpu *cuda.Device) error {
		s, err := gpu.NewStream()
		if err != nil {
			return err
		}
		defer s.Close()
		grad, err := cuda.Alloc[float32](gpu, 1<<20)
		if err != nil {
			return err
		}
		defer grad.Free()
		if err := collective.AllReduceDevice(ctx, c, s, grad, grad, collective.Avg); err != nil {
			return err
		}
		return c.SyncDevice(ctx, s)
	}
	_ = step // gpu is cuda.DeviceByUUID(w.Device())
}

// Each rank's GPU keeps a part of the parameters: kernels of the program run between the calls, in the same stream.
func ExampleReduceScatterDevice() {
	step := func(ctx context.Context, c *collective.Comm, s *cuda.Stream, weights, grad cuda.Slice[float32],
		update func(weights, grad cuda.Slice[float32]) error) error {
		each := weights.Len() / c.Size()
		own := func(x cuda.Slice[float32]) cuda.Slice[float32] { return x.Slice(c.Rank()*each, (c.Rank()+1)*each) }
		if err := collective.ReduceScatterDevice(ctx, c, s, grad, own(grad), collective.Avg); err != nil {
			return err
		}
		if err := update(own(weights), own(grad)); err != nil { // puts kernels into s
			return err
		}
		return collective.AllGatherDevice(ctx, c, s, own(weights), weights)
	}
	_ = step // and c.SyncDevice, when the result is needed
}

// All GPUs begin with the parameters of rank 0, which gets the greatest loss; then their streams meet.
func ExampleBroadcastDevice() {
	step := func(ctx context.Context, c *collective.Comm, s *cuda.Stream, weights, loss cuda.Slice[float32]) error {
		return errors.Join(
			collective.BroadcastDevice(ctx, c, s, weights, weights, 0),
			collective.ReduceDevice(ctx, c, s, loss, loss, collective.Max, 0),
			collective.BarrierDevice(ctx, c, s),
			c.SyncDevice(ctx, s))
	}
	_ = step
}

// Means weighted by this rank's share of the samples: for all ranks, for rank 0, and a part for every rank.
func ExampleAllReducePreMulDevice() {
	step := func(ctx context.Context, c *collective.Comm, s *cuda.Stream, grad, loss, part cuda.Slice[float32],
		share float32) error {
		return errors.Join(
			collective.AllReducePreMulDevice(ctx, c, s, grad, grad, share),
			collective.ReducePreMulDevice(ctx, c, s, loss, loss, share, 0),
			collective.ReduceScatterPreMulDevice(ctx, c, s, grad, part, share),
			c.SyncDevice(ctx, s))
	}
	_ = step
}

// Experts on all GPUs: each token goes to the GPU of its expert, and its result comes back.
func ExampleAllToAllDevice() {
	step := func(ctx context.Context, c *collective.Comm, s *cuda.Stream, tokens, mine cuda.Slice[float32],
		expert func(tokens cuda.Slice[float32]) error) error {
		if err := collective.AllToAllDevice(ctx, c, s, tokens, mine); err != nil {
			return err
		}
		if err := expert(mine); err != nil { // puts kernels into s
			return err
		}
		return collective.AllToAllDevice(ctx, c, s, mine, tokens)
	}
	_ = step // and c.SyncDevice, when the result is needed
}

// Rank 0 scatters a batch, and gathers the results in the order of the ranks.
func ExampleScatterDevice() {
	step := func(ctx context.Context, c *collective.Comm, s *cuda.Stream, batch, part, results cuda.Slice[float32],
		infer func(part cuda.Slice[float32]) error) error {
		return errors.Join(
			collective.ScatterDevice(ctx, c, s, batch, part, 0), // batch and results are used on rank 0 only
			infer(part),
			collective.GatherDevice(ctx, c, s, part, results, 0),
			c.SyncDevice(ctx, s))
	}
	_ = step
}

// Each GPU has some rows of a grid, and a copy of the nearest rows of its neighbors: both sides are exchanged at once.
func ExampleSendRecvDevice() {
	step := func(ctx context.Context, c *collective.Comm, s *cuda.Stream, rows func(i int) cuda.Slice[float32],
		n int) error {
		up, down := (c.Rank()+c.Size()-1)%c.Size(), (c.Rank()+1)%c.Size()
		return errors.Join( // rows 1 to n are this GPU's own
			collective.SendRecvDevice(ctx, c, s, rows(1), up, rows(n+1), down),
			collective.SendRecvDevice(ctx, c, s, rows(n), down, rows(0), up))
	}
	_ = step // the devices are open: a BarrierDevice came first
}

// Layers of a network on one GPU each: every rank receives the output of the previous layer, runs its own layer, and
// sends the result to the next.
func ExampleSendDevice() {
	step := func(ctx context.Context, c *collective.Comm, s *cuda.Stream, x cuda.Slice[float32],
		layer func(x cuda.Slice[float32]) error) error {
		if c.Rank() > 0 {
			if err := collective.RecvDevice(ctx, c, s, x, c.Rank()-1); err != nil {
				return err
			}
		}
		if err := layer(x); err != nil || c.Rank() == c.Size()-1 { // puts kernels into s
			return err
		}
		return collective.SendDevice(ctx, c, s, x, c.Rank()+1)
	}
	_ = step // and c.SyncDevice, when the result is needed
}

// Plans of device calls are for the links between the devices, which the first device call determines unless a graph is
// given.
func ExampleComm_DeviceChoice() {
	dgx, _ := topo.Machine("dgx1v")
	onRanks(8, func(c *collective.Comm) error {
		choice, err := c.DeviceChoice(plan.AllReduce, -1, 256<<20)
		if c.Rank() == 0 {
			fmt.Println(choice.PredictedUs, c.DeviceGraph() == nil) // no device call has been made
		}
		return err
	}, collective.WithDeviceGraph(dgx))
	// Output: NaN true
}
