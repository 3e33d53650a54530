// Gomlx trains a GoMLX model data-parallel: on each rank GoMLX computes the gradients of
// its share of the batch, treerun adds them up in buckets, and GoMLX's optimizer makes the step.
//
//	cd examples/gomlx && treerun -np 4 .
//
// It is a module of its own, so that other users do not download GoMLX, and runs on GoMLX's
// backend in pure Go.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"slices"

	"github.com/gomlx/gomlx/backends"
	_ "github.com/gomlx/gomlx/backends/simplego" // registers the backend "go"
	"github.com/gomlx/gomlx/pkg/core/dtypes"
	. "github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/tensors"
	model "github.com/gomlx/gomlx/pkg/ml/context"
	"github.com/gomlx/gomlx/pkg/ml/layers"
	"github.com/gomlx/gomlx/pkg/ml/layers/activations"
	"github.com/gomlx/gomlx/pkg/ml/train"
	"github.com/gomlx/gomlx/pkg/ml/train/losses"
	"github.com/gomlx/gomlx/pkg/ml/train/optimizers"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/examples/train/data"
	"github.com/treerun/treerun/rank"
)

func main() {
	epochs := flag.Int("epochs", 10, "how often to go through the images")
	batch := flag.Int("batch", 64, "images of a step, over all ranks")
	flag.Parse()
	ctx := context.Background()
	w, err := rank.Init(ctx)
	check(err)
	defer w.Close()
	c, err := collective.New(ctx, w)
	check(err)
	images, labels := data.Digits("train")
	if *epochs < 1 || *batch < c.Size() || *batch > len(labels) {
		log.Fatalf("%d epochs, batches of %d images: want 1 or more, and %d (one for each rank) to %d",
			*epochs, *batch, c.Size(), len(labels))
	}
	l, loss := newLearner(c), float32(0)
	for range *epochs {
		loss = 0
		steps := len(labels) / *batch // the last images, too few for a batch, are omitted
		for s := range steps {
			// The share of this rank: images s*batch to (s+1)*batch are the batch.
			first, end := s**batch+c.Rank()**batch/c.Size(), s**batch+(c.Rank()+1)**batch/c.Size()
			share := images[first*data.Pixels : end*data.Pixels]
			loss += l.step(ctx, share, labels[first:end], *batch) / float32(steps)
		}
	}
	images, labels = data.Digits("t10k")
	right := tensors.ToScalar[int32](l.right.MustExec1(tensorsOf(images, labels)...))
	if c.Rank() == 0 {
		fmt.Printf("loss=%.4f accuracy=%.4f\n", loss, float64(right)/float64(len(labels)))
	}
	check(c.Close())
}

// check ends this rank, and with it the job, if err is not nil.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// learner is a model, the same on all ranks.
type learner struct {
	c *collective.Comm
	// The computations of GoMLX: gradients and loss of a rank's share, the optimizer's step with the gradients of all,
	// and the number of images that are recognized.
	gradients, update, right *model.Exec

	flat    [][]float32 // the gradients, and the loss
	buckets *collective.Buckets[float32]
}

func newLearner(c *collective.Comm) *learner {
	backend, err := backends.NewWithConfig("go")
	check(err)
	m := model.New()
	check(m.SetRNGStateFromSeed(1)) // the same first weights on all ranks
	m.SetParam(optimizers.ParamLearningRate, 0.01)
	adam := optimizers.Adam().FromContext(m).Done().(train.OptimizeWithGradients)
	return &learner{
		c: c,
		gradients: model.MustNewExec(backend, m, func(m *model.Context, images, labels *Node) []*Node {
			mean := ReduceAllMean(losses.SparseCategoricalCrossEntropyLogits([]*Node{labels}, []*Node{logits(m, images)}))
			loss := MulScalar(mean, images.Shape().Dim(0)) // the sum over the share
			return append(m.BuildTrainableVariablesGradientsGraph(loss), loss)
		}),
		right: model.MustNewExec(backend, m.Reuse(), func(m *model.Context, images, labels *Node) *Node {
			predicted := ArgMax(logits(m, images), -1, dtypes.Int32)
			return ReduceAllSum(ConvertDType(Equal(predicted, Reshape(labels, -1)), dtypes.Int32))
		}),
		update: model.MustNewExec(backend, m.Checked(false), func(m *model.Context, gradients []*Node) *Node {
			for v := range m.IterVariables() {
				v.ValueGraph(gradients[0].Graph()) // the optimizer reads the variables of the graph
			}
			adam.UpdateGraphWithGradients(m, gradients, dtypes.Float32)
			return ReduceAllSum(gradients[0]) // a graph must have a result; this one is not used
		}),
	}
}

// logits is the model: images through a hidden layer to the logits of the digits.
func logits(m *model.Context, images *Node) *Node {
	hidden := activations.Relu(layers.Dense(m.In("hidden"), images, true, 64))
	return layers.Dense(m.In("out"), hidden, true, data.Classes)
}

// step learns from a batch, of which this rank has a share, and returns the batch's mean loss.
func (l *learner) step(ctx context.Context, images, labels []byte, batch int) float32 {
	outputs := l.gradients.MustExec(tensorsOf(images, labels)...)
	if l.buckets == nil { // now their lengths are known
		for _, t := range outputs {
			l.flat = append(l.flat, make([]float32, t.Shape().Size()))
		}
		var err error
		l.buckets, err = collective.NewBuckets(ctx, l.c, l.flat, collective.Sum, 0)
		check(err)
	}
	// The sums of a rank's share become the mean of the batch, whatever the shares' lengths. Full buckets travel while the
	// next tensors are copied.
	for i, t := range slices.Backward(outputs) {
		tensors.MustConstFlatData(t, func(values []float32) {
			for j, v := range values {
				l.flat[i][j] = v / float32(batch)
			}
		})
		check(l.buckets.Ready(i))
	}
	check(l.buckets.Wait(ctx))
	last := len(l.flat) - 1
	gradients := make([]any, last)
	for i := range gradients {
		gradients[i] = tensors.FromFlatDataAndDimensions(l.flat[i], outputs[i].Shape().Dimensions...)
	}
	l.update.MustExec(gradients...)
	return l.flat[last][0]
}

// tensorsOf returns images and their digits as tensors of GoMLX.
func tensorsOf(images, labels []byte) []any {
	x, y := make([]float32, len(images)), make([]int32, len(labels))
	for i, p := range images {
		x[i] = float32(p) / data.Maximum
	}
	for i, label := range labels {
		y[i] = int32(label)
	}
	return []any{tensors.FromFlatDataAndDimensions(x, len(labels), data.Pixels),
		tensors.FromFlatDataAndDimensions(y, len(labels), 1)}
}
