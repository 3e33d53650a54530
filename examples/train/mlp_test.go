package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
)

// oracleLoss computes the loss of one image in float64, by the definition.
func oracleLoss(widths []int, params []float64, image []float64, label int) float64 {
	x := image
	for i := 1; i < len(widths); i++ {
		in, out := widths[i-1], widths[i]
		weight, bias := params[:in*out], params[in*out:in*out+out]
		params = params[in*out+out:]
		y := make([]float64, out)
		for k := range y {
			y[k] = bias[k]
			for j := range x {
				y[k] += x[j] * weight[j*out+k]
			}
			if i < len(widths)-1 {
				y[k] = math.Max(y[k], 0)
			}
		}
		x = y
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v)
	}
	return math.Log(sum) - x[label]
}

// randomSet makes images of random pixels.
func randomSet(r *rand.Rand, n, width, classes int) *dataset {
	d := &dataset{width: width, maximum: 16, classes: classes}
	for range n * width {
		d.pixels = append(d.pixels, byte(r.IntN(17)))
	}
	for range n {
		d.labels = append(d.labels, byte(r.IntN(classes)))
	}
	return d
}

func randomNet(r *rand.Rand, widths []int, rows int) *mlp {
	m := newMLP(widths, rows)
	m.initialize(r)
	for _, l := range m.layers { // biases that are not all zero
		for i := range l.bias {
			l.bias[i] = float32(r.NormFloat64() / 10)
		}
	}
	return m
}

// The gradient and the loss agree with finite differences of the definition in
// float64.
func TestGradientAgainstDifferences(t *testing.T) {
	for _, hidden := range [][]int{{}, {5}, {7, 4}} {
		r := rand.New(rand.NewPCG(1, uint64(len(hidden))))
		widths := append(append([]int{6}, hidden...), 3)
		d := randomSet(r, 9, 6, 3)
		m := randomNet(r, widths, 8)
		batch := []int{8, 1, 3, 0, 5}

		params := make([]float64, len(m.params))
		for i, p := range m.params {
			params[i] = float64(p)
		}
		loss := func() (sum float64) {
			for _, i := range batch {
				image := make([]float64, d.width)
				for j := range image {
					image[j] = float64(d.pixels[i*d.width+j]) / 16
				}
				sum += oracleLoss(widths, params, image, int(d.labels[i]))
			}
			return sum
		}
		if got, want := m.gradient(d, batch), loss(); math.Abs(got-want) > 1e-5*want {
			t.Errorf("%v: loss %v, want %v", widths, got, want)
		}
		const h = 1e-6
		for i, p := range params {
			params[i] = p + h
			above := loss()
			params[i] = p - h
			below := loss()
			params[i] = p
			want := (above - below) / (2 * h)
			if got := float64(m.grad[i]); math.Abs(got-want) > 1e-4*(1+math.Abs(want)) {
				t.Errorf("%v: derivative by parameter %d is %v, want %v", widths, i, got, want)
			}
		}
	}
}

// The gradients of the shards of a batch add up to the gradient of the batch,
// for any number of ranks, which is the basis of data-parallel training.
func TestShardGradientsAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	d := randomSet(r, 40, 10, 4)
	m := randomNet(r, []int{10, 8, 4}, 40)
	batch := r.Perm(40)[:37]
	wantLoss := m.gradient(d, batch)
	want := append([]float32(nil), m.grad...)
	for _, size := range []int{1, 2, 3, 8, 37, 50} {
		loss, sum := 0.0, make([]float32, len(m.grad))
		for rank := range size {
			from, to := shard(len(batch), rank, size)
			loss += m.gradient(d, batch[from:to])
			for i, g := range m.grad {
				sum[i] += g
			}
		}
		if math.Abs(loss-wantLoss) > 1e-5*wantLoss {
			t.Errorf("%d ranks: loss %v, want %v", size, loss, wantLoss)
		}
		for i := range sum {
			if math.Abs(float64(sum[i]-want[i])) > 1e-5 {
				t.Fatalf("%d ranks: gradient %d is %v, want %v", size, i, sum[i], want[i])
			}
		}
	}
}

// The gradient of each layer is reported once, the last layer first, when it has its value, also without images.
func TestReady(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	d := randomSet(r, 20, 10, 4)
	m := randomNet(r, []int{10, 8, 6, 4}, 20)
	for _, n := range []int{20, 0, 7} {
		var order []int
		values := make([][]float32, len(m.byLayer))
		m.ready = func(layer int) { order, values[layer] = append(order, layer), slices.Clone(m.byLayer[layer]) }
		m.gradient(d, r.Perm(20)[:n])
		if !slices.Equal(order, []int{2, 1, 0}) || !slices.Equal(slices.Concat(values...), m.grad) {
			t.Errorf("%d images: layers %v are ready with %v, want %v", n, order, values, m.grad)
		}
	}
}

func TestSoftmaxCrossEntropy(t *testing.T) {
	for _, c := range []struct {
		scores []float32
		label  byte
		loss   float64
		share  float64 // softmax at the label
	}{
		{[]float32{0, 0, 0, 0}, 2, math.Log(4), 0.25},
		{[]float32{1000, 1000, -1000, -1000}, 0, math.Log(2), 0.5},
		{[]float32{1e30, 0, 0, 0}, 0, 0, 1},
		{[]float32{-1e30, 0, 0, 0}, 0, 1e30, 0},
		{[]float32{-2000, -2000.5, -2010, -2010}, 1, 0.5 + math.Log(1+math.Exp(-0.5)+2*math.Exp(-10)),
			math.Exp(-0.5) / (1 + math.Exp(-0.5) + 2*math.Exp(-10))},
	} {
		scores := blas32.General{Rows: 1, Cols: 4, Stride: 4, Data: c.scores}
		gradient := matrix(1, 4)
		loss := softmaxCrossEntropy(scores, []byte{c.label}, gradient)
		if !(math.Abs(loss-c.loss) <= 1e-6*(1+c.loss)) {
			t.Errorf("%v at %d: loss %v, want %v", c.scores, c.label, loss, c.loss)
		}
		if got := float64(gradient.Data[c.label]); !(math.Abs(got-(c.share-1)) <= 1e-6) {
			t.Errorf("%v at %d: derivative %v, want %v", c.scores, c.label, got, c.share-1)
		}
		sum := 0.0
		for _, g := range gradient.Data {
			sum += float64(g)
		}
		if !(math.Abs(sum) <= 1e-6) {
			t.Errorf("%v: the derivatives add up to %v, want 0", c.scores, sum)
		}
	}
}

func TestInitialize(t *testing.T) {
	m := newMLP([]int{400, 200, 10}, 1)
	m.initialize(rand.New(rand.NewPCG(3, 3)))
	for _, l := range m.layers {
		sum, squares := 0.0, 0.0
		for _, w := range l.weight.Data {
			sum += float64(w)
			squares += float64(w) * float64(w)
		}
		n := float64(len(l.weight.Data))
		if want := 2 / float64(l.weight.Rows); math.Abs(squares/n-want) > 0.1*want || math.Abs(sum/n) > 0.1*math.Sqrt(want) {
			t.Errorf("layer of %d inputs: mean %v, variance %v, want 0 and %v", l.weight.Rows, sum/n, squares/n, want)
		}
		for _, b := range l.bias {
			if b != 0 {
				t.Errorf("layer of %d inputs: bias %v, want 0", l.weight.Rows, b)
			}
		}
	}
}

// correct counts right when there are more images than fit into one batch.
func TestCorrect(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	d := randomSet(r, 23, 10, 4)
	small, large := newMLP([]int{10, 8, 4}, 5), newMLP([]int{10, 8, 4}, 23)
	large.initialize(r)
	copy(small.params, large.params)
	scores := large.forward(d, indices(23))
	for i := range d.labels { // two out of three labels become those that the network predicts
		if i%3 > 0 {
			d.labels[i] = byte(indexOfMax(scores.Data[i*4:][:4]))
		} else {
			d.labels[i] = byte(indexOfMax(scores.Data[i*4:][:4])+1) % 4
		}
	}
	if a, b := small.correct(d, indices(23)), large.correct(d, indices(23)); a != 15 || b != 15 {
		t.Errorf("%d and %d correct, want 15", a, b)
	}
}

func TestSGDStep(t *testing.T) {
	s := newSGD(1, 0.5)
	s.rate = 0.25
	w := []float32{1}
	s.step(w, []float32{8}, 4) // velocity 2
	if w[0] != 0.5 {
		t.Errorf("after one step: %v, want 0.5", w[0])
	}
	s.step(w, []float32{4}, 4) // velocity 0.5*2 + 1
	if w[0] != 0 {
		t.Errorf("after two steps: %v, want 0", w[0])
	}
}
