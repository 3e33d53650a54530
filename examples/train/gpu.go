package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
)

//go:generate ../../scripts/ptx.sh .

//go:embed network.ptx
var networkPTX []byte

// onGPU is the learner on a GPU. Images, weights and gradients stay in its
// memory; the gradients of the ranks are added up there. A step is put into the
// stream, and only the end of an epoch waits for it.
type onGPU struct {
	c      *collective.Comm
	device *cuda.Device
	stream *cuda.Stream
	module *cuda.Module
	kernel map[string]*cuda.Kernel
	open   []interface{ Free() error } // memory

	training, test         deviceSet
	order                  cuda.Slice[int32] // of the images of an epoch, or of a test
	params, grad, velocity cuda.Slice[float32]
	layers                 []deviceLayer
	labels                 cuda.Slice[uint8]   // of the rows of a batch
	losses                 cuda.Slice[float64] // of every row, since begin
	counts                 cuda.Slice[uint32]  // of every row

	rows           int // the largest share of a batch
	rate, momentum float32
	marks          []*cuda.Event // pairs, around every sum of gradients
	used           int           // of marks, in this epoch
}

// deviceSet is a dataset in device memory.
type deviceSet struct {
	pixels, labels cuda.Slice[uint8]
	width          int
	scale          float32
}

// deviceLayer is a layer in device memory: windows of params and grad, whose
// biases lie behind the weights, and the rows of a batch.
type deviceLayer struct {
	inputs, outputs int
	weight, dWeight cuda.Addr
	in, dIn         cuda.Addr // dIn is 0 in the first layer
	out, dOut       cuda.Addr
}

// kernels of network.cu.
var networkKernels = []string{"train_images", "train_forward", "train_loss", "train_backward_weight",
	"train_backward_input", "train_update", "train_count"}

// newOnGPU makes a learner with the weights of net on a device.
func newOnGPU(ctx context.Context, c *collective.Comm, device *cuda.Device, net *mlp, opt *options, training,
	test *dataset) (*onGPU, error) {
	l := &onGPU{c: c, device: device, rows: net.rows(), momentum: float32(opt.momentum)}
	if err := l.load(ctx, net, training, test); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *onGPU) load(ctx context.Context, net *mlp, training, test *dataset) (err error) {
	if l.stream, err = l.device.NewStream(); err != nil {
		return err
	}
	if err := l.loadKernels(); err != nil {
		return err
	}
	if l.training, err = l.upload(ctx, training); err != nil {
		return err
	}
	if l.test, err = l.upload(ctx, test); err != nil {
		return err
	}
	if err := l.allocate(net, max(training.size(), test.size())); err != nil {
		return err
	}
	if err := l.params.CopyFrom(ctx, l.stream, net.params); err != nil {
		return err
	}
	return l.clear(l.velocity.Addr(), l.velocity.Bytes())
}

func (l *onGPU) loadKernels() (err error) {
	l.kernel = map[string]*cuda.Kernel{}
	if l.module, err = l.device.Load(networkPTX); err != nil {
		return err
	}
	for _, name := range networkKernels {
		if l.kernel[name], err = l.module.Kernel(name); err != nil {
			return err
		}
	}
	return nil
}

// alloc allocates memory that Close gives back.
func alloc[T cuda.Number](l *onGPU, n int) (cuda.Slice[T], error) {
	s, err := cuda.Alloc[T](l.device, n)
	if err == nil {
		l.open = append(l.open, s)
	}
	return s, err
}

func (l *onGPU) upload(ctx context.Context, d *dataset) (set deviceSet, err error) {
	set.width, set.scale = d.width, 1/float32(d.maximum)
	for _, part := range []struct {
		to   *cuda.Slice[uint8]
		from []byte
	}{{&set.pixels, d.pixels}, {&set.labels, d.labels}} {
		if *part.to, err = alloc[uint8](l, len(part.from)); err == nil {
			err = part.to.CopyFrom(ctx, l.stream, part.from)
		}
		if err != nil {
			return set, err
		}
	}
	return set, nil
}

// allocate makes room for the weights and for batches.
func (l *onGPU) allocate(net *mlp, images int) error {
	var all error
	floats := func(n int) cuda.Slice[float32] {
		s, err := alloc[float32](l, n)
		all = errors.Join(all, err)
		return s
	}
	n := len(net.params)
	l.params, l.grad, l.velocity = floats(n), floats(n), floats(n)
	at := 0
	in, dIn := floats(l.rows*net.layers[0].weight.Rows).Addr(), cuda.Addr(0)
	for _, from := range net.layers {
		to := deviceLayer{inputs: from.weight.Rows, outputs: from.weight.Cols, in: in, dIn: dIn}
		to.weight, to.dWeight = l.params.Addr()+cuda.Addr(4*at), l.grad.Addr()+cuda.Addr(4*at)
		to.out, to.dOut = floats(l.rows*to.outputs).Addr(), floats(l.rows*to.outputs).Addr()
		at += (to.inputs + 1) * to.outputs
		in, dIn = to.out, to.dOut
		l.layers = append(l.layers, to)
	}
	var err error
	l.order, err = alloc[int32](l, images)
	all = errors.Join(all, err)
	l.labels, err = alloc[uint8](l, l.rows)
	all = errors.Join(all, err)
	l.losses, err = alloc[float64](l, l.rows)
	all = errors.Join(all, err)
	l.counts, err = alloc[uint32](l, l.rows)
	return errors.Join(all, err)
}

func (l *onGPU) clear(a cuda.Addr, bytes int64) error { return l.stream.Memset(a, 0, bytes) }

const blockThreads = 256

// launch runs a kernel with a thread for each of n numbers, up to what the device
// runs at the same time; threads take more in turn.
func (l *onGPU) launch(name string, n int, args ...uint64) error {
	var buffer [80]byte
	packed := buffer[:0]
	for _, a := range args {
		packed = binary.LittleEndian.AppendUint64(packed, a)
	}
	blocks := min((n+blockThreads-1)/blockThreads, 8*l.device.Multiprocessors())
	return l.stream.Launch(l.kernel[name], uint32(blocks), blockThreads, packed)
}

func (l *onGPU) setOrder(ctx context.Context, order []int) error {
	list := make([]int32, len(order))
	for i, image := range order {
		list[i] = int32(image)
	}
	return l.order.Slice(0, len(list)).CopyFrom(ctx, l.stream, list)
}

func (l *onGPU) begin(ctx context.Context, order []int, rate float32) error {
	l.rate, l.used = rate, 0
	if err := l.clear(l.losses.Addr(), l.losses.Bytes()); err != nil {
		return err
	}
	return l.setOrder(ctx, order)
}

// forward computes the scores of images of order, from number first on.
func (l *onGPU) forward(set deviceSet, first, rows int) error {
	err := l.launch("train_images", rows*set.width, u(set.pixels.Addr()), u(set.labels.Addr()), u(l.order.Addr()),
		u(l.layers[0].in), u(l.labels.Addr()), uint64(first), uint64(rows), uint64(set.width), floatBits(set.scale))
	if err != nil {
		return err
	}
	for i, y := range l.layers {
		relu := uint64(1)
		if i == len(l.layers)-1 {
			relu = 0
		}
		if err := l.launch("train_forward", rows*y.outputs, u(y.in), u(y.weight), u(y.out), uint64(rows), uint64(y.inputs),
			uint64(y.outputs), relu); err != nil {
			return err
		}
	}
	return nil
}

// gradient sets grad to the gradient of the loss, summed over the given images,
// and adds their losses up. Without images the gradient is zero.
func (l *onGPU) gradient(first, rows int) error {
	if rows == 0 {
		return l.clear(l.grad.Addr(), l.grad.Bytes())
	}
	if err := l.forward(l.training, first, rows); err != nil {
		return err
	}
	last := l.layers[len(l.layers)-1]
	if err := l.launch("train_loss", rows, u(last.out), u(l.labels.Addr()), u(last.dOut), u(l.losses.Addr()), uint64(rows),
		uint64(last.outputs)); err != nil {
		return err
	}
	for i := len(l.layers) - 1; i >= 0; i-- {
		y := l.layers[i]
		shape := []uint64{uint64(rows), uint64(y.inputs), uint64(y.outputs)}
		args := append([]uint64{u(y.in), u(y.weight), u(y.dOut), u(y.dWeight)}, shape...)
		if err := l.launch("train_backward_weight", (y.inputs+1)*y.outputs, args...); err != nil {
			return err
		}
		if i == 0 {
			break
		}
		args[3] = u(y.dIn)
		if err := l.launch("train_backward_input", rows*y.inputs, args...); err != nil {
			return err
		}
	}
	return nil
}

func (l *onGPU) step(ctx context.Context, first, mine, batch int) error {
	if err := l.gradient(first, mine); err != nil {
		return err
	}
	if err := l.mark(); err != nil {
		return err
	}
	if err := collective.AllReduceDevice(ctx, l.c, l.stream, l.grad, l.grad, collective.Sum); err != nil {
		return err
	}
	if err := l.mark(); err != nil {
		return err
	}
	n := l.params.Len()
	return l.launch("train_update", n, u(l.params.Addr()), u(l.velocity.Addr()), u(l.grad.Addr()), uint64(n),
		floatBits(l.momentum), floatBits(l.rate), floatBits(1/float32(batch)))
}

// mark records when the stream gets here.
func (l *onGPU) mark() error {
	if l.used == len(l.marks) {
		e, err := l.device.NewEvent(true)
		if err != nil {
			return err
		}
		l.marks = append(l.marks, e)
	}
	l.used++
	return l.stream.Record(l.marks[l.used-1])
}

func (l *onGPU) end(ctx context.Context) (loss float64, communication time.Duration, err error) {
	if err := l.c.SyncDevice(ctx, l.stream); err != nil {
		return 0, 0, err
	}
	list := make([]float64, l.rows)
	if err := l.losses.CopyTo(ctx, l.stream, list); err != nil {
		return 0, 0, err
	}
	for _, x := range list {
		loss += x
	}
	for i := 0; i < l.used; i += 2 {
		d, err := l.marks[i+1].Since(l.marks[i])
		if err != nil {
			return 0, 0, err
		}
		communication += d
	}
	return loss, communication, nil
}

func (l *onGPU) correct(ctx context.Context, indices []int) (count int, err error) {
	if err := l.setOrder(ctx, indices); err != nil {
		return 0, err
	}
	if err := l.clear(l.counts.Addr(), l.counts.Bytes()); err != nil {
		return 0, err
	}
	last := l.layers[len(l.layers)-1]
	for first := 0; first < len(indices); first += l.rows {
		rows := min(l.rows, len(indices)-first)
		if err := l.forward(l.test, first, rows); err != nil {
			return 0, err
		}
		if err := l.launch("train_count", rows, u(last.out), u(l.labels.Addr()), u(l.counts.Addr()), uint64(rows),
			uint64(last.outputs)); err != nil {
			return 0, err
		}
	}
	list := make([]uint32, l.rows)
	if err := l.counts.CopyTo(ctx, l.stream, list); err != nil {
		return 0, err
	}
	for _, n := range list {
		count += int(n)
	}
	return count, nil
}

// Close gives memory, stream and kernels back; work that is still there is
// waited for.
func (l *onGPU) Close() error {
	var all error
	for _, e := range l.marks {
		all = errors.Join(all, e.Close())
	}
	for _, m := range l.open {
		all = errors.Join(all, m.Free())
	}
	if l.module != nil {
		all = errors.Join(all, l.module.Close())
	}
	if l.stream != nil {
		all = errors.Join(all, l.stream.Close())
	}
	return all
}

func u(a cuda.Addr) uint64 { return uint64(a) }

func floatBits(x float32) uint64 { return uint64(math.Float32bits(x)) }

// deviceOf returns the GPU that the launcher has given this rank. A launcher that
// gives none, as others than treerun do and treerun --gpu-bind none, leaves the choice
// to the program: the ranks of a host take in turn those that they see.
func deviceOf(uuid string, localRank int) (*cuda.Device, error) {
	if uuid != "" {
		return cuda.DeviceByUUID(uuid)
	}
	all, err := cuda.Devices()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("this host has no GPU: %w", cuda.ErrUnavailable)
	}
	return all[localRank%len(all)], nil
}
