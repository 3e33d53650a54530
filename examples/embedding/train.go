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

// result is what a training came to.
type result struct {
	mode          string
	digest        uint64
	first, last   float64 // loss of a pair, in the first and last tenth of the steps
	bytes         int64   // that this rank sent, over all steps
	adding, whole time.Duration
	touched       float64 // part of the rows that a step touches, over all ranks
}

func (r *result) String() string {
	return fmt.Sprintf("%-6s loss %.4f to %.4f, %.2f %% of the rows touched, %.1f MB sent per rank, %.2f s adding up, "+
		"%.2f s in all, vectors %016x",
		r.mode, r.first, r.last, 100*r.touched, float64(r.bytes)/1e6, r.adding.Seconds(), r.whole.Seconds(), r.digest)
}

// mode is a way to add up the gradients of all ranks, and to apply the sum.
type mode struct {
	name string
	add  func(context.Context, *training) error
}

var modes = []mode{{"dense", addDense}, {"sparse", addSparse}, {"pairs", addPairs}}

// training is one under way.
type training struct {
	c       *collective.Comm
	o       *options
	corpus  *corpus
	model   *model
	result  *result
	chances []int64 // of words to be drawn, added up

	keep []float64 // the chance of a word's place to be taken: of frequent ones few are

	grad    []int32        // of all rows: dense and sparse
	list    []uint32       // rows that were touched: pairs
	steps   []int32        // theirs
	at      map[uint32]int // where a row is in list
	touched int            // over all steps
	loss    []float64      // by step, of this rank's pairs
}

// frequent is the part of a text from which on a word counts as frequent.
const frequent = 1e-4

// train trains a model from the beginning.
func train(ctx context.Context, c *collective.Comm, o *options, text *corpus, by mode) (*result, error) {
	words := len(text.Count)
	t := &training{c: c, o: o, corpus: text, model: newModel(words, o.dim, seed), result: &result{mode: by.name},
		at: make(map[uint32]int)}
	if by.name != "pairs" {
		t.grad = make([]int32, len(t.model.rows))
	}
	sum := int64(0)
	for _, n := range text.Count { // as word2vec draws
		t.keep = append(t.keep, min(1, math.Sqrt(frequent*float64(len(text.Text))/float64(n))))
		sum += int64(math.Pow(float64(n), 0.75)*100) + 1
		t.chances = append(t.chances, sum)
	}
	if err := collective.Barrier(ctx, c); err != nil {
		return nil, err
	}
	begun := time.Now()
	for step := range o.steps {
		t.batch(step)
		before := time.Now()
		if err := by.add(ctx, t); err != nil {
			return nil, fmt.Errorf("step %d: %w", step, err)
		}
		t.result.adding += time.Since(before)
	}
	t.result.whole = time.Since(begun)
	t.result.digest = t.model.digest()
	t.result.touched = float64(t.touched) / float64(o.steps) / float64(2*words)
	return t.result, t.sumLoss(ctx)
}

// batch computes the gradients of this rank's share of a step: of all pairs of the
// batch each rank takes those whose number is its own, modulo the ranks.
func (t *training) batch(step int) {
	words := len(t.corpus.Count)
	sum := 0.0
	step32 := make([]int32, t.o.dim)
	for i := t.c.Rank(); i < t.o.batch; i += t.c.Size() {
		r := rand.New(rand.NewPCG(seed, uint64(step)<<32|uint64(i)+1))
		at := r.IntN(len(t.corpus.Text))
		for r.Float64() > t.keep[t.corpus.Text[at]] {
			at = r.IntN(len(t.corpus.Text))
		}
		near := at + 1 + r.IntN(window)
		if r.IntN(2) == 0 {
			near = at - 1 - r.IntN(window)
		}
		near = (near + len(t.corpus.Text)) % len(t.corpus.Text)
		p := pair{word: int(t.corpus.Text[at]), context: int(t.corpus.Text[near]), label: 1}
		sum += t.model.gradient(p, words, rate, step32, t.add)
		for range negatives {
			drawn := r.Int64N(t.chances[words-1])
			p.context, _ = slices.BinarySearch(t.chances, drawn+1)
			p.label = 0
			sum += t.model.gradient(p, words, rate, step32, t.add)
		}
	}
	t.loss = append(t.loss, sum)
}

// add notes what is to be added to a row.
func (t *training) add(row int, step []int32) {
	to := t.grad
	if to != nil {
		to = to[row*t.o.dim:]
	} else {
		i, known := t.at[uint32(row)]
		if !known {
			i = len(t.list)
			t.at[uint32(row)] = i
			t.list = append(t.list, uint32(row))
			t.steps = append(t.steps, make([]int32, t.o.dim)...)
		}
		to = t.steps[i*t.o.dim:]
	}
	for i, v := range step {
		to[i] += v
	}
}

// denseBytes is what a rank sends in a dense AllReduce of so many elements: 2(n-1)/n
// of them, as with any that divides the work evenly.
func (t *training) denseBytes(elements int) int64 {
	n := int64(t.c.Size())
	return int64(elements) * 4 * 2 * (n - 1) / n
}

// addDense adds up the whole gradients.
func addDense(ctx context.Context, t *training) error {
	if err := collective.AllReduce(ctx, t.c, t.grad, t.grad, collective.Sum); err != nil {
		return err
	}
	t.result.bytes += t.denseBytes(len(t.grad))
	t.applyAll()
	return nil
}

// addSparse adds up the rows that are not zero: a row is a block.
func addSparse(ctx context.Context, t *training) error {
	stats, err := sparse.AllReduce(ctx, t.c, t.grad, t.grad, collective.Sum, sparse.BlockSize(t.o.dim))
	if err != nil {
		return err
	}
	if t.result.bytes += stats.SentBytes; stats.Form == sparse.Dense {
		t.result.bytes += t.denseBytes(len(t.grad))
	}
	t.applyAll()
	return nil
}

// applyAll applies a summed gradient and makes it zero again.
func (t *training) applyAll() {
	for row := range 2 * len(t.corpus.Count) {
		step := t.grad[row*t.o.dim : (row+1)*t.o.dim]
		if slices.ContainsFunc(step, func(v int32) bool { return v != 0 }) {
			t.model.apply(row, step)
			t.touched++
			clear(step)
		}
	}
}

// addPairs adds up lists of rows.
func addPairs(ctx context.Context, t *training) error {
	sum, stats, err := sparse.AllReducePairs(ctx, t.c,
		sparse.Pairs[int32]{Indices: t.list, Values: t.steps, Width: t.o.dim})
	if err != nil {
		return err
	}
	t.result.bytes += stats.SentBytes + int64(4*len(t.list))
	if stats.Form == sparse.Dense {
		t.result.bytes += t.denseBytes(len(sum.Values))
	}
	for i, row := range sum.Indices {
		t.model.apply(int(row), sum.Values[i*t.o.dim:(i+1)*t.o.dim])
	}
	t.touched += len(sum.Indices)
	t.list, t.steps = t.list[:0], t.steps[:0]
	clear(t.at)
	return nil
}

// sumLoss adds up the losses of all ranks.
func (t *training) sumLoss(ctx context.Context) error {
	if err := collective.AllReduce(ctx, t.c, t.loss, t.loss, collective.Sum); err != nil {
		return err
	}
	pairs := t.o.batch * (1 + negatives)
	tenth := max(1, t.o.steps/10)
	for i := range tenth {
		t.result.first += t.loss[i] / float64(tenth*pairs)
		t.result.last += t.loss[t.o.steps-1-i] / float64(tenth*pairs)
	}
	return nil
}
