//go:build cgo && linux

package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// oneGPU is a job of one rank, whose process has a fake GPU.
var oneGPU = fakegpu.Job{Hosts: []string{"dgx1v/0"}, Ranks: 1}

// gpu is a device on which a test runs the example's kernels.
type gpu struct {
	t *testing.T
	*gpuLearner
}

func openGPU(t *testing.T) gpu {
	devices, err := cuda.Devices()
	if err != nil {
		t.Fatal(err)
	}
	g := gpu{t, &gpuLearner{device: devices[0]}}
	t.Cleanup(func() { g.check(g.Close()) })
	g.loadKernels()
	g.check(g.err)
	return g
}

func (g gpu) check(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// put allocates memory for data and returns its address.
func (g gpu) put(data any) uint64 {
	g.t.Helper()
	bytes, err := binary.Append(nil, binary.LittleEndian, data)
	g.check(err)
	s := alloc[uint8](g.gpuLearner, len(bytes))
	g.check(g.err)
	g.check(s.CopyFrom(g.t.Context(), g.stream, bytes))
	return addr(s.Addr())
}

// get reads data from an address that put returned.
func (g gpu) get(at uint64, data any) {
	g.t.Helper()
	for _, m := range g.open {
		s := m.(cuda.Slice[uint8])
		if addr(s.Addr()) != at {
			continue
		}
		bytes := make([]byte, s.Len())
		g.check(s.CopyTo(g.t.Context(), g.stream, bytes))
		_, err := binary.Decode(bytes, binary.LittleEndian, data)
		g.check(err)
		return
	}
	g.t.Fatalf("nothing was put at %#x", at)
}

func (g gpu) run(name string, args ...uint64) {
	g.t.Helper()
	g.launch(name, 2*blockThreads, args...)
	g.check(g.err)
}

// near compares numbers that were rounded a few times.
func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= 1e-6*(1+math.Abs(float64(want[i])))) {
			t.Fatalf("%s: number %d is %v, on the host %v", what, i, got[i], want[i])
		}
	}
}

// The kernels compute the same as the host: scores, losses, gradients, a step, and the
// number of images that are recognized.
func TestKernels(t *testing.T) {
	if !oneGPU.Run(t) {
		return
	}
	r := rand.New(rand.NewPCG(7, 7))
	widths, rows, first := []int{12, 7, 5}, 6, 2
	d := randomSet(r, 10, widths[0], widths[2])
	net := randomNet(r, widths, rows)
	order := []int32{9, 3, 8, 1, 3, 0, 5, 7, 2}
	var mine []int
	for _, image := range order[first : first+rows] {
		mine = append(mine, int(image))
	}

	e := openGPU(t)
	size := func(outputs int) []float32 { return make([]float32, rows*outputs) }
	pixels, labels, indices := e.put(d.pixels), e.put(d.labels), e.put(order)
	rowLabels, params := e.put(make([]uint8, rows)), e.put(net.params)
	grad, velocity := e.put(make([]float32, len(net.params))), e.put(make([]float32, len(net.params)))
	x, hidden, scores := e.put(size(12)), e.put(size(7)), e.put(size(5))
	dHidden, dScores := e.put(size(7)), e.put(size(5))
	losses, counts := e.put(make([]float64, rows)), e.put(make([]uint32, rows))
	second := uint64(4 * (12 + 1) * 7) // where the second layer begins

	n := uint64(rows)
	e.run("train_images", pixels, labels, indices, x, rowLabels, uint64(first), n, 12, floatArg(1/float32(d.maximum)))
	e.run("train_forward", x, params, hidden, n, 12, 7, 1)
	e.run("train_forward", hidden, params+second, scores, n, 7, 5, 0)
	e.run("train_loss", scores, rowLabels, dScores, losses, n, 5)
	e.run("train_backward_weight", hidden, params+second, dScores, grad+second, n, 7, 5)
	e.run("train_backward_input", hidden, params+second, dScores, dHidden, n, 7, 5)
	e.run("train_backward_weight", x, params, dHidden, grad, n, 12, 7)
	e.run("train_count", scores, rowLabels, counts, n, 5)
	e.run("train_update", params, velocity, grad, uint64(len(net.params)), floatArg(0.9), floatArg(0.05),
		floatArg(1.0/8))

	wantCount, wantLoss := net.correct(d, mine), net.gradient(d, mine)
	gotScores := size(5)
	e.get(scores, gotScores)
	near(t, "scores", gotScores, net.layers[1].out.Data)
	gotGrad := make([]float32, len(net.grad))
	e.get(grad, gotGrad)
	near(t, "gradient", gotGrad, net.grad)
	gotLosses, loss := make([]float64, rows), 0.0
	e.get(losses, gotLosses)
	for _, l := range gotLosses {
		loss += l
	}
	if !(math.Abs(loss-wantLoss) <= 1e-6*wantLoss) {
		t.Errorf("loss %v, on the host %v", loss, wantLoss)
	}
	gotCounts, count := make([]uint32, rows), 0
	e.get(counts, gotCounts)
	for _, c := range gotCounts {
		count += int(c)
	}
	if count != wantCount {
		t.Errorf("%d recognized, on the host %d", count, wantCount)
	}
	descent := newSGD(len(net.params), 0.9)
	descent.rate = 0.05
	descent.step(net.params, net.grad, 8)
	gotParams := make([]float32, len(net.params))
	e.get(params, gotParams)
	near(t, "weights", gotParams, net.params)
}

// The loss is that of the definition, for scores of all sizes: exponential and
// logarithm are the example's own.
func TestLossKernel(t *testing.T) {
	if !oneGPU.Run(t) {
		return
	}
	r := rand.New(rand.NewPCG(8, 8))
	const rows, classes = 64, 10
	scores, labels := make([]float32, rows*classes), make([]uint8, rows)
	for row := range rows {
		labels[row] = uint8(r.IntN(classes))
		spread := math.Exp(r.Float64()*14 - 7)
		for j := range classes {
			scores[row*classes+j] = float32(r.NormFloat64() * spread)
		}
	}
	e := openGPU(t)
	s, l, g, sums := e.put(scores), e.put(labels), e.put(make([]float32, len(scores))), e.put(make([]float64, rows))
	e.run("train_loss", s, l, g, sums, rows, classes)
	e.run("train_loss", s, l, g, sums, rows, classes) // adds to the losses in memory
	gradient, losses := make([]float32, len(scores)), make([]float64, rows)
	e.get(g, gradient)
	e.get(sums, losses)
	for row := range rows {
		in, want := matrix(1, classes), matrix(1, classes)
		copy(in.Data, scores[row*classes:])
		loss := softmaxCrossEntropy(in, labels[row:row+1], want)
		if d := math.Abs(losses[row] - 2*loss); !(d <= 1e-13*(1+loss)) {
			t.Errorf("row %d: twice the loss is %v, on the host %v", row, losses[row], 2*loss)
		}
		near(t, "gradient", gradient[row*classes:][:classes], want.Data)
	}

	e.run("train_loss", e.put([]float32{float32(math.Inf(1)), 1, 2}), e.put([]uint8{0}), e.put(make([]float32, 3)), sums,
		1, 3)
	if e.get(sums, losses); losses[0] == losses[0] {
		t.Errorf("an infinite score has the loss %v, want NaN", losses[0])
	}
}
