// Train trains a multi-layer perceptron on images, data-parallel: every rank
// holds the whole network, computes the gradient for its share of each batch,
// and the ranks add their gradients up, those of a layer while the ones of the
// layer before it are computed.
//
//	treerun -np 8 ./examples/train
//	treerun -np 2 ./examples/train --data DIR --epochs 10 --batch 128
//	treerun -np 8 ./examples/train --device cuda
//	treerun -np 4 --on-failure respawn ./examples/train --elastic
//
// Without --data it learns the handwritten digits that come with it (see
// data/README.md); it then recognizes 97 % of those it has not seen. DIR is
// a folder with a data set in the IDX form of MNIST; these settings recognize
// 88 % of Fashion-MNIST. On GPUs it learns the same, in kernels of its own, and
// adds the gradients up in their memory.
//
// With --elastic the training survives the loss of ranks, and has the same
// losses, bit for bit, with and without failures, on any number of ranks.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/rank"
)

func main() {
	err := run(context.Background(), os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	opt, err := parse(args)
	if err != nil {
		return err
	}
	training, test, err := load(opt.data)
	if err != nil {
		return err
	}
	if opt.elastic {
		return elastic(ctx, opt, training, test)
	}
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	var device *cuda.Device
	if opt.device == "cuda" {
		if device, err = deviceOf(w.Device(), w.LocalRank()); err != nil {
			return fmt.Errorf("rank %d: --device cuda: %w", w.Rank(), err)
		}
	}
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	return errors.Join(train(ctx, c, device, opt, training, test), c.Close())
}

// options are the settings of a training. They are the same on all ranks.
type options struct {
	epochs, batch  int
	rate, momentum float64
	hidden         []int
	seed           uint64
	data, lossLog  string
	device         string // "cpu" or "cuda"
	elastic        bool
	microbatches   int // of a step, with elastic
}

func parse(args []string) (*options, error) {
	var opt options
	f := pflag.NewFlagSet("train", pflag.ContinueOnError)
	f.IntVar(&opt.epochs, "epochs", 30, "how often to go through the training images")
	f.IntVar(&opt.batch, "batch", 64, "images per step, over all ranks")
	f.Float64Var(&opt.rate, "lr", 0.05, "learning rate of the first epoch; it falls linearly towards 0")
	f.Float64Var(&opt.momentum, "momentum", 0.9, "share of the last step that is kept in the next")
	f.IntSliceVar(&opt.hidden, "hidden", []int{128}, "widths of the hidden layers")
	f.Uint64Var(&opt.seed, "seed", 1, "of the first weights and the order of the images")
	f.StringVar(&opt.data, "data", "", "`folder` of an IDX data set such as Fashion-MNIST (default: the digits)")
	f.StringVar(&opt.lossLog, "loss-log", "", "`file` for a line \"epoch loss accuracy\" per epoch, in full precision")
	f.StringVar(&opt.device, "device", "cpu",
		"where to compute: cpu, or cuda for the GPU that the launcher gives each rank;\nwhere it gives none, ranks take "+
			"those that they see in turn")
	f.BoolVar(&opt.elastic, "elastic", false,
		"continue after failures, with the same losses, where treerun does; --loss-log then\nhas a line \"step bits loss\" "+
			"per step, with the bits of the float32 in hexadecimal")
	f.IntVar(&opt.microbatches, "microbatches", 16,
		"with --elastic: parts of a batch, a power of two; more ranks than these have nothing\nto compute")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return &opt, opt.validate()
}

func (o *options) validate() error {
	switch {
	case o.epochs < 1 || o.batch < 1 || slices.ContainsFunc(o.hidden, func(n int) bool { return n < 1 }):
		return errors.New("--epochs, --batch and --hidden: want numbers from 1 on")
	case o.device != "cpu" && o.device != "cuda":
		return fmt.Errorf("--device is %q, want cpu or cuda", o.device)
	case o.microbatches < 1 || o.microbatches&(o.microbatches-1) != 0:
		return fmt.Errorf("--microbatches is %d, want a power of two", o.microbatches)
	case o.elastic && o.device != "cpu":
		return errors.New("--elastic computes on the host: it does not go with --device cuda")
	}
	return nil
}
