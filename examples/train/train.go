package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
)

// train trains a network on all ranks of c. Rank 0 reports. device is nil for a
// training on the host.
func train(ctx context.Context, c *collective.Comm, device *cuda.Device, opt *options, training,
	test *dataset) (err error) {
	begin := time.Now()
	widths := append(append([]int{training.width}, opt.hidden...), training.classes)
	net := newMLP(widths, (opt.batch+c.Size()-1)/c.Size())

	// Rank 0 draws the first weights, and the others receive them.
	if c.Rank() == 0 {
		net.initialize(rand.New(rand.NewPCG(opt.seed, 0)))
	}
	if err := collective.Broadcast(ctx, c, net.params, net.params, 0); err != nil {
		return err
	}
	descent := newSGD(len(net.params), opt.momentum)
	var l learner
	if device != nil {
		l, err = newGPULearner(ctx, c, device, net, opt, training, test)
	} else {
		l, err = newHostLearner(ctx, c, net, descent, training, test)
	}
	if err != nil {
		return fmt.Errorf("rank %d: %w", c.Rank(), err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()

	log := io.Discard
	if opt.lossLog != "" && c.Rank() == 0 {
		f, err := os.Create(opt.lossLog)
		if err != nil {
			return fmt.Errorf("--loss-log: %w", err)
		}
		defer f.Close()
		log = f
	}
	var last epochResult
	for epoch := 1; epoch <= opt.epochs; epoch++ {
		if last, err = trainEpoch(ctx, c, l, opt, training, test, epoch); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Printf("epoch %d/%d  loss=%.4f  accuracy=%.4f  images/s=%.0f  communication=%.0f%%\n", epoch, opt.epochs,
				last.loss, last.accuracy, float64(training.size())/last.seconds, 100*last.communication/last.seconds)
		}
		if _, err := fmt.Fprintln(log, epoch, last.loss, last.accuracy); err != nil {
			return fmt.Errorf("--loss-log: %w", err)
		}
	}
	if c.Rank() == 0 {
		fmt.Printf("final loss=%.4f accuracy=%.4f seconds=%.1f\n", last.loss, last.accuracy, time.Since(begin).Seconds())
	}
	return nil
}

// epochResult is the result of all ranks in one epoch.
type epochResult struct {
	loss          float64 // mean over the training images, each at its step
	accuracy      float64 // share of the test images recognized after the epoch
	seconds       float64 // of training, on this rank
	communication float64 // seconds of these in which gradients are added up, with the wait for slower ranks
}

// trainEpoch trains once with all training images, then tests.
func trainEpoch(ctx context.Context, c *collective.Comm, l learner, opt *options, training, test *dataset,
	epoch int) (epochResult, error) {
	begin := time.Now()
	// The order is the same on all ranks: it depends on seed and epoch only.
	order := rand.New(rand.NewPCG(opt.seed, uint64(epoch))).Perm(training.size())
	rate := float32(opt.rate * (1 - float64(epoch-1)/float64(opt.epochs)))
	err := l.begin(ctx, order, rate)
	for first := 0; first < len(order) && err == nil; first += opt.batch {
		batch := min(opt.batch, len(order)-first)
		from, to := shard(batch, c.Rank(), c.Size())
		err = l.step(ctx, first+from, to-from, batch)
	}
	if err != nil {
		return epochResult{}, err
	}
	loss, communication, err := l.end(ctx)
	if err != nil {
		return epochResult{}, err
	}
	seconds := time.Since(begin).Seconds()

	// Every rank knows the loss of its own images and tests its own share.
	from, to := shard(test.size(), c.Rank(), c.Size())
	count, err := l.correct(ctx, indices(test.size())[from:to])
	if err != nil {
		return epochResult{}, err
	}
	sums := []float64{loss, float64(count)}
	if err := collective.AllReduce(ctx, c, sums, sums, collective.Sum); err != nil {
		return epochResult{}, err
	}
	if math.IsNaN(sums[0]) || math.IsInf(sums[0], 0) {
		return epochResult{}, fmt.Errorf("rank %d, epoch %d: the loss is %v; a smaller --lr may help", c.Rank(), epoch,
			sums[0])
	}
	return epochResult{
		loss:          sums[0] / float64(training.size()),
		accuracy:      sums[1] / float64(test.size()),
		seconds:       seconds,
		communication: communication.Seconds(),
	}, nil
}

// shard returns the share of rank of n images, from from up to, not including, to. The shares
// differ by at most one image. A share may be empty when there are more ranks than
// images.
func shard(n, rank, size int) (from, to int) {
	return n * rank / size, n * (rank + 1) / size
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
