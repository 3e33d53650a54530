package main

import (
	"context"
	"time"

	"github.com/treerun/treerun/collective"
)

// learner is one rank's copy of the network, which learns on the host or
// on a GPU. All ranks call the same methods in the same order.
type learner interface {
	// begin starts an epoch that goes through the images in order.
	begin(ctx context.Context, order []int, rate float32) error
	// step learns from a batch: the images of this rank are mine of them, images
	// first to first+mine-1 of order; all ranks together have batch.
	step(ctx context.Context, first, mine, batch int) error
	// end returns the sum of the losses of this rank's images since begin, and
	// the time in which its gradients were added up.
	end(ctx context.Context) (loss float64, communication time.Duration, err error)
	// correct counts the images of the test that the network recognizes.
	correct(ctx context.Context, indices []int) (int, error)
	// Close releases the resources of the learner.
	Close() error
}

// hostLearner is the learner that computes with blas.
type hostLearner struct {
	net            *mlp
	descent        *sgd
	training, test *dataset

	buckets       *collective.Buckets[float32] // the gradients by layer: those of one travel while the next are computed
	order         []int
	loss          float64
	communication time.Duration
	err           error // the first error of a step
}

func newHostLearner(ctx context.Context, c *collective.Comm, net *mlp, descent *sgd, training,
	test *dataset) (*hostLearner, error) {
	l := &hostLearner{net: net, descent: descent, training: training, test: test}
	var err error
	l.buckets, err = collective.NewBuckets(ctx, c, net.byLayer, collective.Sum, 0)
	net.ready = func(layer int) { l.communicate(func() error { return l.buckets.Ready(layer) }) }
	return l, err
}

// communicate adds up the time of f, unless there has been an error.
func (l *hostLearner) communicate(f func() error) {
	if l.err == nil {
		t := time.Now()
		l.err = f()
		l.communication += time.Since(t)
	}
}

func (l *hostLearner) begin(_ context.Context, order []int, rate float32) error {
	l.order, l.descent.rate = order, rate
	l.loss, l.communication = 0, 0
	return nil
}

func (l *hostLearner) step(ctx context.Context, first, mine, batch int) error {
	l.loss += l.net.gradient(l.training, l.order[first:first+mine])
	if l.communicate(func() error { return l.buckets.Wait(ctx) }); l.err != nil {
		return l.err
	}
	l.descent.step(l.net.params, l.net.grad, batch)
	return nil
}

func (l *hostLearner) end(context.Context) (float64, time.Duration, error) {
	return l.loss, l.communication, nil
}

func (l *hostLearner) correct(_ context.Context, indices []int) (int, error) {
	return l.net.correct(l.test, indices), nil
}

func (l *hostLearner) Close() error { return nil }
