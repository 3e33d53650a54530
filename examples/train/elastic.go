package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

// elastic trains with --elastic: the job continues when a rank is lost, or others join, and learns the same. What a
// training needs to continue is in its learning, which lives as long as the process.
func elastic(ctx context.Context, opt *options, training, test *dataset) error {
	l := newLearning(opt, training)
	for w, err := range rank.Worlds(ctx) { // one turn per epoch of the job
		if err != nil {
			return err
		}
		err = l.epoch(w.Context(), w, test)
		if err == nil {
			return w.Close()
		}
		if !rank.Again(err) {
			return err
		}
		if l.ended.IsZero() {
			l.ended = time.Now()
		}
	}
	return nil
}

// learning is one rank's part in a training. A step is a batch in a fixed number of microbatches, whose gradients are
// added up in a fixed order: it does not matter which ranks compute them.
type learning struct {
	opt      *options
	training *dataset
	steps    int // of the whole training
	started  time.Time

	// The state of the training: its version is step.
	step    int // steps that are done
	net     *mlp
	descent *sgd
	losses  []float32 // by step, for those that are done

	order  []int // of the images, in the pass through them to which step belongs
	pass   int   // the number of that pass
	own    partialSums
	total  []float32
	ended  time.Time // when an epoch of the job ended here, until a step is done in the next one
	spared int       // see killForTest; -1 before its first call
}

func newLearning(opt *options, training *dataset) *learning {
	widths := append(append([]int{training.width}, opt.hidden...), training.classes)
	l := &learning{opt: opt, training: training, started: time.Now(), pass: -1, spared: -1}
	l.net = newMLP(widths, (opt.batch+opt.microbatches-1)/opt.microbatches)
	l.net.initialize(rand.New(rand.NewPCG(opt.seed, 0))) // the same on all ranks
	l.descent = newSGD(len(l.net.params), opt.momentum)
	l.steps = opt.epochs * l.perPass()
	l.losses, l.total = make([]float32, l.steps), make([]float32, len(l.net.params)+1)
	return l
}

// perPass returns the number of steps in which the training sees every image once.
func (l *learning) perPass() int { return (l.training.size() + l.opt.batch - 1) / l.opt.batch }

// epoch trains until the end of the training, which is nil, or of an epoch of the job.
func (l *learning) epoch(ctx context.Context, w *rank.World, test *dataset) error {
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	l.step, err = collective.Restore(ctx, c, l.step, l.net.params, l.descent.velocity, l.losses)
	if err != nil {
		return err
	}
	x := newExchange(c, l.opt.microbatches, len(l.total))
	for first := true; l.step < l.steps; first = false {
		select {
		case <-w.Changed(): // others wait to join
			return rank.ErrAgain
		default:
		}
		l.killForTest(w)
		if err := l.next(ctx, x); err != nil {
			return err
		}
		if first && w.Epoch() > 0 {
			if err := l.reportEpoch(ctx, c, w); err != nil {
				return err
			}
		}
		if c.Rank() == 0 && l.step%l.perPass() == 0 {
			fmt.Printf("step %d/%d  loss=%.4f\n", l.step, l.steps, l.meanLoss())
		}
	}
	l.killForTest(w)
	if err := l.finish(ctx, c, test); err != nil {
		return err
	}
	return c.Close()
}

// next does one step: after an error nothing has changed.
func (l *learning) next(ctx context.Context, x *exchange) error {
	if pass := l.step / l.perPass(); pass != l.pass {
		l.pass, l.order = pass, rand.New(rand.NewPCG(l.opt.seed, uint64(pass+1))).Perm(l.training.size())
	}
	begin := l.step % l.perPass() * l.opt.batch
	batch := l.order[begin:min(begin+l.opt.batch, len(l.order))]
	l.own.clear()
	gradients := len(l.net.grad)
	for m, end := shard(l.opt.microbatches, x.c.Rank(), x.c.Size()); m < end; m++ {
		from, to := shard(len(batch), m, l.opt.microbatches)
		loss := l.net.gradient(l.training, batch[from:to])
		v := l.own.vector(gradients + 1)
		copy(v, l.net.grad)
		v[gradients] = float32(loss)
		l.own.add(subtree{first: m, size: 1, sum: v})
	}
	if err := x.sum(ctx, l.own.subtrees, l.total); err != nil {
		return err
	}
	loss := l.total[gradients] / float32(len(batch))
	if math.IsNaN(float64(loss)) || math.IsInf(float64(loss), 0) {
		return fmt.Errorf("rank %d, step %d: the loss is %v; a smaller --lr may help", x.c.Rank(), l.step, loss)
	}
	l.descent.rate = float32(l.opt.rate * (1 - float64(l.pass)/float64(l.opt.epochs)))
	l.descent.step(l.net.params, l.total[:gradients], len(batch))
	l.losses[l.step] = loss
	l.step++
	return nil
}

// reportEpoch prints how long the training stood still between two epochs of the job: on the rank that left the first
// one earliest.
func (l *learning) reportEpoch(ctx context.Context, c *collective.Comm, w *rank.World) error {
	pause := 0.0
	if !l.ended.IsZero() {
		pause = time.Since(l.ended).Seconds()
	}
	pause, err := collective.AllReduceValue(ctx, c, pause, collective.Max)
	if err != nil {
		return err
	}
	l.ended = time.Time{}
	if c.Rank() == 0 {
		fmt.Printf("epoch %d of the job: %d ranks, lost %v, joined %v; step %d was done %.1f ms after the last epoch\n",
			w.Epoch(), w.Size(), w.Lost(), w.Joined(), l.step, 1e3*pause)
	}
	return nil
}

// meanLoss returns the mean loss of the last pass through the images.
func (l *learning) meanLoss() float64 {
	sum := 0.0
	for _, loss := range l.losses[l.step-l.perPass() : l.step] {
		sum += float64(loss)
	}
	return sum / float64(l.perPass())
}

// finish tests the network, and rank 0 reports.
func (l *learning) finish(ctx context.Context, c *collective.Comm, test *dataset) error {
	from, to := shard(test.size(), c.Rank(), c.Size())
	correct, err := collective.AllReduceValue(ctx, c, l.net.correct(test, indices(test.size())[from:to]), collective.Sum)
	if err != nil || c.Rank() != 0 {
		return err
	}
	if l.opt.lossLog != "" {
		var log strings.Builder
		for step, loss := range l.losses {
			fmt.Fprintf(&log, "%d %08x %v\n", step, math.Float32bits(loss), loss)
		}
		if err := os.WriteFile(l.opt.lossLog, []byte(log.String()), 0o600); err != nil {
			return fmt.Errorf("--loss-log: %w", err)
		}
	}
	fmt.Printf("final loss=%.4f accuracy=%.4f seconds=%.1f\n", l.meanLoss(), float64(correct)/float64(test.size()),
		time.Since(l.started).Seconds())
	return nil
}

// killForTest is for tests: TRAIN_KILL="7:2 15:0" kills rank 2 after 7 steps and rank 0 after 15, by their numbers at
// the start. A process that takes the place of such a rank is spared in its first step, and where others repeat one.
func (l *learning) killForTest(w *rank.World) {
	if l.spared < 0 {
		l.spared = 0
		if w.Epoch() > 0 {
			l.spared = l.step + 1
		}
	}
	at := fmt.Sprintf("%d:%d", l.step, w.Origin())
	for kill := range strings.FieldsSeq(os.Getenv("TRAIN_KILL")) {
		if kill == at && l.step > l.spared {
			fmt.Printf("rank %d is killed after %d steps\n", w.Origin(), l.step)
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		}
	}
}
