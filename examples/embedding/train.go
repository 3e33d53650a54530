package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse"
)

// result is the outcome of a training.
type result struct {
	mode          string
	digest        uint64
	first, last   float64 // loss of a pair, in the first and the last step
	bytes         int64   // that this rank sent, over all steps
	adding, whole time.Duration
	touched       float64 // part of the rows that a step touches, over all ranks
}

func (r *result) String() string {
	return fmt.Sprintf("%-6s loss %.4f to %.4f, %.2f %% of the rows touched, %.1f MB sent per rank, %.2f s adding up, "+
		"%.2f s in all, vectors %016x",
		r.mode, r.first, r.last, 100*r.touched, float64(r.bytes)/1e6, r.adding.Seconds(), r.whole.Seconds(), r.digest)
}

// gradient is rows of a model, with the step of each.
type gradient = sparse.Pairs[int32]

// mode is a way to add up the gradients of all ranks. Its add also returns the number of bytes that this rank sent.
type mode struct {
	name string
	add  func(context.Context, *training) (sum gradient, sent int64, err error)
}

var modes = []mode{{"dense", addDense}, {"sparse", addSparse}, {"pairs", addPairs}}

// training is the state of a training.
type training struct {
	c          *collective.Comm
	o          *options
	corpus     *corpus
	model      *model
	keepChance []float64 // by word: the chance of its places to be drawn
	own        gradient  // of this rank's share of a batch
	dense      []int32   // a gradient with all rows
}

// frequent is the share of a text from which a word counts as frequent: few of its places are drawn, as in word2vec.
const frequent = 1e-4

// train trains a model from the beginning.
func train(ctx context.Context, c *collective.Comm, o *options, text *corpus, by mode) (*result, error) {
	words := len(text.Count)
	t := &training{c: c, o: o, corpus: text, model: newModel(words, o.dim, seed)}
	t.dense = make([]int32, len(t.model.rows))
	for _, n := range text.Count {
		t.keepChance = append(t.keepChance, min(1, math.Sqrt(frequent*float64(len(text.Text))/float64(n))))
	}
	r, losses := &result{mode: by.name}, make([]float64, o.steps)
	if err := collective.Barrier(ctx, c); err != nil {
		return nil, err
	}
	begun := time.Now()
	for step := range losses {
		losses[step] = t.batch(step)
		before := time.Now()
		sum, sent, err := by.add(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", step, err)
		}
		for i, row := range sum.Indices {
			t.model.apply(int(row), sum.Values[i*o.dim:][:o.dim])
		}
		r.adding += time.Since(before)
		r.bytes += sent
		r.touched += float64(len(sum.Indices)) / float64(o.steps*2*words)
	}
	r.whole, r.digest = time.Since(begun), t.model.digest()
	err := collective.AllReduce(ctx, c, losses, losses, collective.Sum)
	pairs := float64(o.batch * (1 + negatives))
	r.first, r.last = losses[0]/pairs, losses[o.steps-1]/pairs
	return r, err
}

// draw returns a place of the text.
func (t *training) draw(r *rand.Rand) (at int) {
	for at = -1; at < 0 || r.Float64() > t.keepChance[t.corpus.Text[at]]; {
		at = r.IntN(len(t.corpus.Text))
	}
	return at
}

// batch computes the gradient of this rank's share of a step, and the loss: of all pairs of the
// batch each rank takes those whose number, modulo the number of ranks, is its own.
func (t *training) batch(step int) (loss float64) {
	text, words, change := t.corpus.Text, len(t.corpus.Count), make([]int32, t.o.dim)
	t.own = gradient{Indices: t.own.Indices[:0], Values: t.own.Values[:0], Width: t.o.dim}
	places := make(map[int]int) // of rows in the gradient
	add := func(row int, change []int32) {
		at, known := places[row]
		if !known {
			at = len(t.own.Values)
			places[row] = at
			t.own.Indices, t.own.Values = append(t.own.Indices, uint32(row)), append(t.own.Values, change...)
			return
		}
		for i, v := range change {
			t.own.Values[at+i] += v
		}
	}
	for i := t.c.Rank(); i < t.o.batch; i += t.c.Size() {
		r := rand.New(rand.NewPCG(seed, uint64(step)<<32|uint64(i)+1))
		at := t.draw(r)
		near := at + 1 + r.IntN(window)
		if r.IntN(2) == 0 {
			near = at - 1 - r.IntN(window)
		}
		p := pair{word: int(text[at]), context: int(text[(near+len(text))%len(text)]), label: 1}
		loss += t.model.gradient(p, words, rate, change, add)
		for range negatives {
			p.context, p.label = int(text[t.draw(r)]), 0
			loss += t.model.gradient(p, words, rate, change, add)
		}
	}
	return loss
}

// addDense adds up the gradients of all rows.
func addDense(ctx context.Context, t *training) (gradient, int64, error) {
	return t.addRows(func(all []int32) (sparse.Stats, error) {
		return sparse.Stats{Form: sparse.Dense}, collective.AllReduce(ctx, t.c, all, all, collective.Sum)
	})
}

// addSparse adds up the rows that are not zero: a row is a block.
func addSparse(ctx context.Context, t *training) (gradient, int64, error) {
	return t.addRows(func(all []int32) (sparse.Stats, error) {
		return sparse.AllReduce(ctx, t.c, all, all, collective.Sum, sparse.BlockSize(t.o.dim))
	})
}

// addPairs adds up lists of rows, and sends their numbers, too.
func addPairs(ctx context.Context, t *training) (gradient, int64, error) {
	sum, stats, err := sparse.AllReducePairs(ctx, t.c, t.own)
	return sum, t.sentBytes(stats, len(sum.Values)) + int64(4*len(t.own.Indices)), err
}

// addRows sums the gradient with all rows by add, and returns the rows that are not zero.
func (t *training) addRows(add func(all []int32) (sparse.Stats, error)) (sum gradient, sent int64, err error) {
	dim := t.o.dim
	for i, row := range t.own.Indices {
		copy(t.dense[int(row)*dim:], t.own.Values[i*dim:][:dim])
	}
	stats, err := add(t.dense)
	for row := range 2 * len(t.corpus.Count) {
		values := t.dense[row*dim:][:dim]
		if slices.ContainsFunc(values, func(v int32) bool { return v != 0 }) {
			sum.Indices, sum.Values = append(sum.Indices, uint32(row)), append(sum.Values, values...)
			clear(values)
		}
	}
	return sum, t.sentBytes(stats, len(t.dense)), err
}

// sentBytes returns the number of bytes that this rank sent. The dense form does not count them: as in any
// AllReduce that divides the work evenly they are 2(n-1)/n of all elements.
func (t *training) sentBytes(stats sparse.Stats, elements int) int64 {
	if n := int64(t.c.Size()); stats.Form == sparse.Dense {
		return int64(elements) * 4 * 2 * (n - 1) / n
	}
	return stats.SentBytes
}
