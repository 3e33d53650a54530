package main

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// mlp is a multi-layer perceptron: linear layers with ReLU between them, and
// softmax cross-entropy at the end. All weights lie in one slice and all
// gradients in another, those of a layer one behind the other.
type mlp struct {
	params  []float32
	grad    []float32 // of the loss, summed over a batch
	layers  []layer
	byLayer [][]float32     // grad, a slice for each layer
	ready   func(layer int) // unless nil, what gradient calls when a layer of byLayer has its value

	labels []byte // of the images of the batch
}

// layer computes out = in * weight + bias. It holds the rows of a batch; in of
// a layer is out of the one before.
type layer struct {
	weight, dWeight blas32.General // inputs x outputs; windows of params and grad
	bias, dBias     []float32      // likewise
	in, dIn         blas32.General // batch x inputs
	out, dOut       blas32.General // batch x outputs
}

// newMLP makes a network of the given widths, from the input to the number of
// classes, for batches of up to rows images. The weights are zero.
func newMLP(widths []int, rows int) *mlp {
	total := 0
	for i := 1; i < len(widths); i++ {
		total += (widths[i-1] + 1) * widths[i]
	}
	m := &mlp{params: make([]float32, total), grad: make([]float32, total), labels: make([]byte, rows)}
	params, grad := m.params, m.grad
	in, dIn := matrix(rows, widths[0]), blas32.General{} // the gradient of an image is not used
	for i := 1; i < len(widths); i++ {
		inputs, outputs := widths[i-1], widths[i]
		l := layer{in: in, dIn: dIn, out: matrix(rows, outputs), dOut: matrix(rows, outputs)}
		n := inputs * outputs
		l.weight = blas32.General{Rows: inputs, Cols: outputs, Stride: outputs, Data: params[:n]}
		l.dWeight = blas32.General{Rows: inputs, Cols: outputs, Stride: outputs, Data: grad[:n]}
		l.bias, l.dBias = params[n:n+outputs], grad[n:n+outputs]
		m.byLayer = append(m.byLayer, grad[:n+outputs])
		params, grad = params[n+outputs:], grad[n+outputs:]
		m.layers = append(m.layers, l)
		in, dIn = l.out, l.dOut
	}
	return m
}

func matrix(rows, cols int) blas32.General {
	return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float32, rows*cols)}
}

// initialize draws the weights as He et al. do (2015) for ReLU: normal, with
// variance 2 / inputs. Biases stay zero.
func (m *mlp) initialize(r *rand.Rand) {
	for _, l := range m.layers {
		deviation := math.Sqrt(2 / float64(l.weight.Rows))
		for i := range l.weight.Data {
			l.weight.Data[i] = float32(r.NormFloat64() * deviation)
		}
	}
}

// rows is the largest batch.
func (m *mlp) rows() int { return len(m.labels) }

// forward computes the scores of the given images, of which there are at most
// rows.
func (m *mlp) forward(d *dataset, indices []int) (scores blas32.General) {
	n := len(indices)
	d.images(indices, m.layers[0].in.Data, m.labels)
	for i, l := range m.layers {
		in, out := firstRows(l.in, n), firstRows(l.out, n)
		for row := range n {
			copy(out.Data[row*out.Stride:], l.bias)
		}
		blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, in, l.weight, 1, out)
		if i < len(m.layers)-1 {
			relu(out.Data)
		}
		scores = out
	}
	return scores
}

// gradient sets grad to the gradient of the loss, summed over the given images,
// and returns the sum of their losses. Without images both are zero.
func (m *mlp) gradient(d *dataset, indices []int) (loss float64) {
	clear(m.grad)
	n := len(indices)
	if n > 0 {
		scores := m.forward(d, indices)
		last := &m.layers[len(m.layers)-1]
		loss = softmaxCrossEntropy(scores, m.labels[:n], firstRows(last.dOut, n))
	}
	for i := len(m.layers) - 1; i >= 0; i-- {
		if n > 0 {
			m.layers[i].backward(n)
		}
		if m.ready != nil {
			m.ready(i)
		}
		if i > 0 {
			below := m.layers[i].in.Data[:n*m.layers[i].in.Cols]
			for j, x := range below {
				if x <= 0 { // where ReLU was flat
					m.layers[i].dIn.Data[j] = 0
				}
			}
		}
	}
	return loss
}

// backward computes dWeight, dBias and dIn from dOut of the first n rows.
func (l *layer) backward(n int) {
	in, dOut := firstRows(l.in, n), firstRows(l.dOut, n)
	blas32.Gemm(blas.Trans, blas.NoTrans, 1, in, dOut, 0, l.dWeight)
	for row := range n {
		for j, g := range dOut.Data[row*dOut.Stride:][:dOut.Cols] {
			l.dBias[j] += g
		}
	}
	if l.dIn.Data != nil {
		blas32.Gemm(blas.NoTrans, blas.Trans, 1, dOut, l.weight, 0, firstRows(l.dIn, n))
	}
}

// correct counts the given images that the network recognizes.
func (m *mlp) correct(d *dataset, indices []int) (count int) {
	for len(indices) > 0 {
		n := min(len(indices), m.rows())
		scores := m.forward(d, indices[:n])
		for row, label := range m.labels[:n] {
			if indexOfMax(scores.Data[row*scores.Stride:][:scores.Cols]) == int(label) {
				count++
			}
		}
		indices = indices[n:]
	}
	return count
}

// firstRows returns the first n rows of m.
func firstRows(m blas32.General, n int) blas32.General {
	return blas32.General{Rows: n, Cols: m.Cols, Stride: m.Stride, Data: m.Data[:n*m.Stride]}
}

func relu(x []float32) {
	for i, v := range x {
		if v < 0 {
			x[i] = 0
		}
	}
}

func indexOfMax(x []float32) (at int) {
	for i, v := range x {
		if v > x[at] {
			at = i
		}
	}
	return at
}

// softmaxCrossEntropy returns the sum over the rows of -log softmax(scores) at
// the row's label, and sets gradient to its derivative by the scores.
func softmaxCrossEntropy(scores blas32.General, labels []byte, gradient blas32.General) (loss float64) {
	for row, label := range labels {
		s := scores.Data[row*scores.Stride:][:scores.Cols]
		g := gradient.Data[row*gradient.Stride:][:gradient.Cols]
		highest := s[indexOfMax(s)] // subtracted, so that exp cannot overflow
		sum := 0.0
		for _, v := range s {
			sum += math.Exp(float64(v - highest))
		}
		for j, v := range s {
			g[j] = float32(math.Exp(float64(v-highest)) / sum)
		}
		g[label]--
		loss += math.Log(sum) - float64(s[label]-highest)
	}
	return loss
}
