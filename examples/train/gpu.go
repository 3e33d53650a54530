package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
)

//go:generate ../../scripts/ptx.sh .

//go:embed network.ptx
var networkPTX []byte

// gpuLearner is the learner on a GPU. Images, weights and gradients stay in its
// memory; the gradients of the ranks are added up there. A step is put into the
// stream, and only the end of an epoch waits for it.
type gpuLearner struct {
	c      *collective.Comm
	device *cuda.Device
	stream *cuda.Stream
	module *cuda.Module
	kernel map[string]*cuda.Kernel
	open   []interface{ Free() error } // memory
	err    error                       // the first one; nothing is done after it

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

// newGPULearner makes a learner with the weights of net on a device.
func newGPULearner(ctx context.Context, c *collective.Comm, device *cuda.Device, net *mlp, opt *options, training,
	test *dataset) (*gpuLearner, error) {
	l := &gpuLearner{c: c, device: device, rows: net.rows(), momentum: float32(opt.momentum)}
	l.loadKernels()
	l.training, l.test = l.uploadSet(ctx, training), l.uploadSet(ctx, test)
	l.allocate(net, max(training.size(), test.size()))
	upload(ctx, l, l.params, net.params)
	l.clear(l.velocity.Addr(), l.velocity.Bytes())
	if l.err != nil {
		return nil, errors.Join(l.err, l.Close())
	}
	return l, nil
}

// loadKernels makes the stream, and the kernels that run there.
func (l *gpuLearner) loadKernels() {
	if l.stream, l.err = l.device.NewStream(); l.err == nil {
		l.module, l.err = l.device.Load(networkPTX)
	}
	l.kernel = map[string]*cuda.Kernel{}
	for _, name := range networkKernels {
		if l.err == nil {
			l.kernel[name], l.err = l.module.Kernel(name)
		}
	}
}

func (l *gpuLearner) uploadSet(ctx context.Context, d *dataset) deviceSet {
	set := deviceSet{alloc[uint8](l, len(d.pixels)), alloc[uint8](l, len(d.labels)), d.width, 1 / float32(d.maximum)}
	upload(ctx, l, set.pixels, d.pixels)
	upload(ctx, l, set.labels, d.labels)
	return set
}

// alloc allocates memory that Close frees.
func alloc[T cuda.Number](l *gpuLearner, n int) (s cuda.Slice[T]) {
	if l.err == nil {
		if s, l.err = cuda.Alloc[T](l.device, n); l.err == nil {
			l.open = append(l.open, s)
		}
	}
	return s
}

func upload[T cuda.Number](ctx context.Context, l *gpuLearner, to cuda.Slice[T], from []T) {
	if l.err == nil {
		l.err = to.CopyFrom(ctx, l.stream, from)
	}
}

func download[T cuda.Number](ctx context.Context, l *gpuLearner, from cuda.Slice[T]) []T {
	list := make([]T, from.Len())
	if l.err == nil {
		l.err = from.CopyTo(ctx, l.stream, list)
	}
	return list
}

// allocate allocates memory for the weights and for batches.
func (l *gpuLearner) allocate(net *mlp, images int) {
	floats := func(n int) cuda.Slice[float32] { return alloc[float32](l, n) }
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
	l.order, l.labels = alloc[int32](l, images), alloc[uint8](l, l.rows)
	l.losses, l.counts = alloc[float64](l, l.rows), alloc[uint32](l, l.rows)
}

func (l *gpuLearner) clear(a cuda.Addr, bytes int64) {
	if l.err == nil {
		l.err = l.stream.Memset(a, 0, bytes)
	}
}

const blockThreads = 256

// launch runs a kernel with a thread for each of n numbers, up to the number of threads that the device
// runs at the same time; threads then take several numbers in turn.
func (l *gpuLearner) launch(name string, n int, args ...uint64) {
	if l.err != nil {
		return
	}
	var buffer [80]byte
	packed := buffer[:0]
	for _, a := range args {
		packed = binary.LittleEndian.AppendUint64(packed, a)
	}
	blocks := min((n+blockThreads-1)/blockThreads, 8*l.device.Multiprocessors())
	l.err = l.stream.Launch(l.kernel[name], uint32(blocks), blockThreads, packed)
}

func (l *gpuLearner) setOrder(ctx context.Context, order []int) {
	list := make([]int32, len(order))
	for i, image := range order {
		list[i] = int32(image)
	}
	upload(ctx, l, l.order.Slice(0, len(list)), list)
}

func (l *gpuLearner) begin(ctx context.Context, order []int, rate float32) error {
	l.rate, l.used = rate, 0
	l.clear(l.losses.Addr(), l.losses.Bytes())
	l.setOrder(ctx, order)
	return l.err
}

// forward computes the scores of images of order, from number first on.
func (l *gpuLearner) forward(set deviceSet, first, rows int) {
	l.launch("train_images", rows*set.width, addr(set.pixels.Addr()), addr(set.labels.Addr()), addr(l.order.Addr()),
		addr(l.layers[0].in), addr(l.labels.Addr()), uint64(first), uint64(rows), uint64(set.width),
		floatArg(set.scale))
	for i, y := range l.layers {
		relu := uint64(1)
		if i == len(l.layers)-1 {
			relu = 0
		}
		l.launch("train_forward", rows*y.outputs, addr(y.in), addr(y.weight), addr(y.out), uint64(rows),
			uint64(y.inputs), uint64(y.outputs), relu)
	}
}

// gradient sets grad to the gradient of the loss, summed over the given images,
// and adds their losses up. Without images the gradient is zero.
func (l *gpuLearner) gradient(first, rows int) {
	if rows == 0 {
		l.clear(l.grad.Addr(), l.grad.Bytes())
		return
	}
	l.forward(l.training, first, rows)
	last := l.layers[len(l.layers)-1]
	l.launch("train_loss", rows, addr(last.out), addr(l.labels.Addr()), addr(last.dOut), addr(l.losses.Addr()),
		uint64(rows), uint64(last.outputs))
	for i, y := range slices.Backward(l.layers) {
		shape := []uint64{uint64(rows), uint64(y.inputs), uint64(y.outputs)}
		args := append([]uint64{addr(y.in), addr(y.weight), addr(y.dOut), addr(y.dWeight)}, shape...)
		l.launch("train_backward_weight", (y.inputs+1)*y.outputs, args...)
		if i > 0 {
			args[3] = addr(y.dIn)
			l.launch("train_backward_input", rows*y.inputs, args...)
		}
	}
}

func (l *gpuLearner) step(ctx context.Context, first, mine, batch int) error {
	l.gradient(first, mine)
	l.mark()
	if l.err == nil {
		l.err = collective.AllReduceDevice(ctx, l.c, l.stream, l.grad, l.grad, collective.Sum)
	}
	l.mark()
	n := l.params.Len()
	l.launch("train_update", n, addr(l.params.Addr()), addr(l.velocity.Addr()), addr(l.grad.Addr()), uint64(n),
		floatArg(l.momentum), floatArg(l.rate), floatArg(1/float32(batch)))
	return l.err
}

// mark records the time at which the stream reaches this point.
func (l *gpuLearner) mark() {
	if l.err == nil && l.used == len(l.marks) {
		var e *cuda.Event
		if e, l.err = l.device.NewEvent(true); l.err == nil {
			l.marks = append(l.marks, e)
		}
	}
	if l.err == nil {
		l.err = l.stream.Record(l.marks[l.used])
		l.used++
	}
}

func (l *gpuLearner) end(ctx context.Context) (loss float64, communication time.Duration, err error) {
	if l.err = l.c.SyncDevice(ctx, l.stream); l.err != nil {
		return 0, 0, l.err
	}
	for _, x := range download(ctx, l, l.losses) {
		loss += x
	}
	for i := 0; i < l.used && l.err == nil; i += 2 {
		var d time.Duration
		d, l.err = l.marks[i+1].Since(l.marks[i])
		communication += d
	}
	return loss, communication, l.err
}

func (l *gpuLearner) correct(ctx context.Context, indices []int) (count int, err error) {
	l.setOrder(ctx, indices)
	l.clear(l.counts.Addr(), l.counts.Bytes())
	last := l.layers[len(l.layers)-1]
	for first := 0; first < len(indices); first += l.rows {
		rows := min(l.rows, len(indices)-first)
		l.forward(l.test, first, rows)
		l.launch("train_count", rows, addr(last.out), addr(l.labels.Addr()), addr(l.counts.Addr()), uint64(rows),
			uint64(last.outputs))
	}
	for _, n := range download(ctx, l, l.counts) {
		count += int(n)
	}
	return count, l.err
}

// Close waits for pending work, and frees memory, stream and kernels.
func (l *gpuLearner) Close() error {
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

func addr(a cuda.Addr) uint64 { return uint64(a) }

func floatArg(x float32) uint64 { return uint64(math.Float32bits(x)) }

// deviceOf returns the GPU that the launcher has given this rank. A launcher that
// gives none, such as one other than treerun, or treerun --gpu-bind none, leaves the choice
// to the program: the ranks of a host take the visible GPUs in turn.
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
