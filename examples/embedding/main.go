// Embedding learns word vectors, by skip-gram with negative sampling, from the text
// of this machine's own documentation, data-parallel: a batch touches few of the
// words, so nearly all of its gradient is zero. The gradients of all ranks are added
// up in three ways, one training each: as one dense AllReduce, as a sparse one, and as
// lists of the rows that were touched. All come to the same vectors, bit by bit.
//
//	treerun -np 4 ./examples/embedding
//	treerun -np 4 ./examples/embedding --text /usr/share/doc --steps 200 --dim 128
//
// Gradients are fixed-point integers, whose sum does not depend on the order.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "embedding:", err)
		os.Exit(1)
	}
}

// options are the settings of a training, the same on all ranks.
type options struct {
	text, mode        string
	dim, batch, steps int
	rate              float64
}

const (
	maxWords   = 2_000_000 // read of the text
	vocabulary = 30_000    // of the most frequent words are learned
	window     = 4         // how far apart a word and its context are at most
	negatives  = 5         // words drawn against each pair
	seed       = 1         // of the first vectors and of what is drawn
)

func parse(args []string) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("embedding", pflag.ContinueOnError)
	f.StringVar(&o.text, "text", "/usr/share/doc", "`folder` or file to read: files of text, also with gzip")
	f.StringVar(&o.mode, "mode", "all", "how gradients are added up: dense, sparse, pairs or all, one after the other")
	f.IntVar(&o.dim, "dim", 64, "elements of a vector")
	f.IntVar(&o.batch, "batch", 1024, "pairs of a step, over all ranks")
	f.IntVar(&o.steps, "steps", 300, "steps of each training")
	f.Float64Var(&o.rate, "lr", 0.05, "learning rate of a pair")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, o.check()
}

func (o *options) check() error {
	switch {
	case o.dim < 1 || o.dim > 4096:
		return fmt.Errorf("--dim is %d, want 1 to 4096", o.dim)
	case o.batch < 1 || o.batch > 1<<20:
		return fmt.Errorf("--batch is %d, want 1 to %d", o.batch, 1<<20)
	case o.steps < 1 || o.steps > 1<<30:
		return fmt.Errorf("--steps is %d, want 1 to %d", o.steps, 1<<30)
	case o.mode != "all" && modes[o.mode] == nil:
		return fmt.Errorf("--mode is %q, want dense, sparse, pairs or all", o.mode)
	case !(o.rate > 0 && o.rate <= 1):
		return fmt.Errorf("--lr is %v, want more than 0, up to 1", o.rate)
	}
	return nil
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if c.Rank() != 0 {
		out = io.Discard
	}
	var read *corpus
	if c.Rank() == 0 {
		if read, err = readCorpus(o.text, maxWords, vocabulary); err != nil {
			return err
		}
	}
	corpus, err := collective.BroadcastObject(ctx, c, read, 0) // the others have the numbers of its words
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d words of text, %d of them different; %d vectors of %d elements, %d ranks\n",
		len(corpus.Text), len(corpus.Count), 2*len(corpus.Count), o.dim, c.Size())
	list := []string{o.mode}
	if o.mode == "all" {
		list = []string{"dense", "sparse", "pairs"}
	}
	var results []*result
	for _, mode := range list {
		r, err := train(ctx, c, o, corpus, mode)
		if err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
		fmt.Fprintln(out, r)
		results = append(results, r)
	}
	return compare(out, results)
}

// compare says what the trainings have in common; it is an error if their vectors
// differ.
func compare(out io.Writer, all []*result) error {
	for _, r := range all[1:] {
		if r.digest != all[0].digest {
			return fmt.Errorf("the vectors of %s and %s differ", all[0].mode, r.mode)
		}
		fmt.Fprintf(out, "%s beside %s: the same vectors, bytes %.1f times fewer, adding up in %.2f of the time\n",
			r.mode, all[0].mode, float64(all[0].bytes)/float64(max(r.bytes, 1)), r.adding.Seconds()/all[0].adding.Seconds())
	}
	return nil
}
