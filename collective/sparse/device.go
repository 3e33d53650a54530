package sparse

import (
	"cmp"
	"context"
	"runtime"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/internal/devices"
	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/transport"
)

// AllReduceDevice is AllReduce on device memory: after the work that is already in stream s, the device finds the
// non-zero blocks, the ranks exchange these, and the device writes the result to recv. send and recv have the same
// length and are memory of the stream's device; they may be the same memory, and overlap in no other way.
//
// In the forms Compact and Dense blocks go from device to device, as with collective.AllReduceDevice: in Compact the
// blocks of the union, in Dense all blocks. In the other forms they go through pinned memory of the hosts. A call by
// price uses the fastest form.
//
// It returns when the remaining work is in the stream: work that is put into s later finds the result in recv, and
// collective.Comm.SyncDevice waits for it and reports errors until then. The host waits once during the call, for the
// set of blocks that was found, and in the forms that go through the host a second time, for the copy of these blocks.
// All ranks call it together, and none of them calls AllReduce instead.
//
// Memory stays with c until it is closed: pinned memory as large as the largest tensor that went through the host, and
// device memory for the blocks of the largest union in the form Compact. The first call by price, or in the form
// Compact or Dense, opens the devices as device calls do. All calls on c use one device of this rank.
func AllReduceDevice[T Number](ctx context.Context, c *collective.Comm, s *cuda.Stream, send, recv cuda.Slice[T],
	op collective.Op, opts ...Option) (Stats, error) {
	const name = "sparse AllReduceDevice"
	r := deviceReduction{stream: s, send: send.Addr(), recv: recv.Addr(),
		reduction: newReduction(newCall(allReduceDevice, dtypeOf[T](), op, send.Len(), opts))}
	state, err := claim(c, name, cmp.Or(r.call.check(), checkDevice(s, send, recv)))
	if err != nil {
		return Stats{}, err
	}
	defer state.c.End()
	r.state = state
	if g := state.stage; g != nil && g.device != s.Device() {
		return Stats{}, state.c.ArgumentError(name, "a stream of %v; the communicator's sparse calls on this "+
			"rank are on %v", s.Device(), g.device)
	}
	defer func(own block.Set) { r.state.set = own }(r.state.set) // the stage's memory may be freed
	err = r.run(ctx, &r)
	runtime.KeepAlive(send)
	runtime.KeepAlive(recv)
	return r.stats, err
}

// checkDevice describes the fault of a call's stream or memory, and returns "" if both are usable.
func checkDevice[T Number](s *cuda.Stream, send, recv cuda.Slice[T]) string {
	in, out := devices.BufferOf("send", send), devices.BufferOf("recv", recv)
	if err := devices.Problem(s, in, out); err != nil {
		return err.Error()
	}
	return unlike(in.Span(), out.Span())
}

// deviceReduction is an AllReduceDevice in flight. The tensor that it exchanges is in the stage, which holds only the
// blocks to be sent.
type deviceReduction struct {
	reduction
	stream     *cuda.Stream
	send, recv cuda.Addr
}

// look finds the non-zero blocks, and waits for the search, if the call needs them.
func (r *deviceReduction) look(ctx context.Context, h *hello) error {
	if ctx.Err() != nil || r.grid.Elements == 0 || r.form == Dense && r.state.c.Size > 1 {
		return nil
	}
	blocks := r.grid.Blocks()
	words := block.Words(blocks)
	if err := r.state.stageFor(r.stream.Device(), words); err != nil {
		return r.state.inside.FaultDevice(r.call.String(), err)
	}
	g := r.state.stage
	begun := time.Now()
	err := g.find(r.stream, r.send, r.call.DType, r.grid)
	if err == nil {
		err = r.stream.Synchronize(ctx)
	}
	if err != nil {
		return r.stopped(ctx, err)
	}
	r.state.set, r.union = g.set(own, words), g.set(united, words)
	r.state.set[words-1] &= ^uint64(0) >> (64*words - blocks) // the kernel wrote words of 32 bits
	clear(r.union)
	r.stats.Finding = time.Since(begun)
	r.counted()
	h.Sample = sampleOf(r.state.set, blocks)
	return nil
}

// stopped ends the communicator because the stream has failed, or because ctx ended before the stream was done.
func (r *deviceReduction) stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return r.state.inside.FaultDevice(r.call.String(), err)
	}
	c := r.state.c
	f := transport.Faultf(transport.FaultOf(ctx.Err()), c.Rank, "rank %d gave up in %s: %v; it waited "+
		"for its device", c.Rank, r.call.String(), ctx.Err())
	return c.Fault(f, r.call.String())
}

// hostLink is the assumed rate, in GB/s, of copies of blocks to the host and back, and stagingUs the time of the waits
// for them. Neither is measured on the machine.
const (
	hostLink  = 10.0
	stagingUs = 60
)

// Costs of the form Compact in addition to the dense plan of the blocks: the rate, in GB/s, at which a device passes
// over its memory (a V100 at 900, an H200 at 4800), and the time of two launches with their copies.
const (
	deviceRate = 1000.0
	compactUs  = 40
)

// price replaces the time of the dense plan by that of the devices' plan, and adds the copies to the host and back to
// the forms of the host. All blocks are found.
func (r *deviceReduction) price(ctx context.Context, e *estimate) error {
	if err := r.state.inside.OpenDevices(ctx, r.stream.Device()); err != nil {
		return err
	}
	bytes := float64(r.grid.Bytes())
	for _, f := range []Form{Trees, Shared} {
		if e.us[f] > 0 {
			e.us[f] += micro(stagingUs + (e.most+e.union)*bytes/hostLink/1e3)
		}
	}
	e.us[Dense] = micro(r.state.devicePrices.us(r.grid.Bytes()))
	// The blocks are read and written twice, and everything is written. An AllGather moves half of what an AllReduce does.
	passes := (e.mean + 2*e.union + 1) * bytes / deviceRate / 1e3
	bitmaps := r.state.hostPrices.us(8 * block.Words(r.grid.Blocks()) * r.state.c.Size / 2)
	e.us[Compact] = micro(compactUs + passes + bitmaps + r.state.devicePrices.us(int(e.union*bytes)))
	return nil
}

func (r *deviceReduction) dense(ctx context.Context) error {
	return r.state.inside.DenseDevice(ctx, r.stream, r.call.DType, r.call.Op, r.send, r.recv, r.grid.Elements)
}

// travel exchanges the blocks, in form f: Compact, or through the host.
func (r *deviceReduction) travel(ctx context.Context, f Form) error {
	if f == Compact {
		return r.compact(ctx)
	}
	g := r.state.stage
	if err := r.state.inside.FaultDevice(r.name, g.gather(r.stream, r.send, r.call.DType, r.grid)); err != nil {
		return err
	}
	if err := r.stream.Synchronize(ctx); err != nil {
		return r.stopped(ctx, err)
	}
	r.in = g.tensor(r.grid)
	r.out, r.inPlace = r.in, true
	if err := r.reduction.travel(ctx, f); err != nil {
		return err
	}
	return r.state.inside.FaultDevice(r.name, g.scatter(r.stream, r.recv, r.call.DType, r.grid))
}

// alone is the call of a communicator of one rank.
func (r *deviceReduction) alone(context.Context) error {
	r.stats.Union, r.stats.UnionDensity = r.stats.NonZero, r.stats.Density
	if r.send == r.recv || r.grid.Elements == 0 {
		return nil
	}
	return r.state.inside.FaultDevice(r.name, r.stream.Memcpy(r.recv, r.send, int64(r.grid.Bytes())))
}
