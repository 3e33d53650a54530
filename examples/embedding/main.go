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
	text              string
	mode              string
	words, vocabulary int
	dim, window       int
	negatives         int
	batch, steps      int
	rate              float64
	seed              uint64
}

func parse(args []string) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("embedding", pflag.ContinueOnError)
	f.StringVar(&o.text, "text", "/usr/share/doc", "`folder` or file to read: files of text, also with gzip")
	f.StringVar(&o.mode, "mode", "all", "how gradients are added up: dense, sparse, pairs or all, one after the other")
	f.IntVar(&o.words, "words", 2_000_000, "how many words of the text to read at most")
	f.IntVar(&o.vocabulary, "vocabulary", 30_000, "how many of the most frequent words to learn at most")
	f.IntVar(&o.dim, "dim", 64, "elements of a vector")
	f.IntVar(&o.window, "window", 4, "how far apart a word and its context are at most")
	f.IntVar(&o.negatives, "negatives", 5, "words drawn against each pair")
	f.IntVar(&o.batch, "batch", 1024, "pairs of a step, over all ranks")
	f.IntVar(&o.steps, "steps", 300, "steps of each training")
	f.Float64Var(&o.rate, "lr", 0.05, "learning rate of a pair")
	f.Uint64Var(&o.seed, "seed", 1, "of the first vectors and of what is drawn")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, o.check()
}

func (o *options) check() error {
	for _, n := range []struct {
		name         string
		v, least, to int
	}{
		{"words", o.words, 100, 1 << 30}, {"vocabulary", o.vocabulary, 10, 1 << 22}, {"dim", o.dim, 1, 4096},
		{"window", o.window, 1, 100},
		{"negatives", o.negatives, 1, 100}, {"batch", o.batch, 1, 1 << 20}, {"steps", o.steps, 1, 1 << 30},
	} {
		if n.v < n.least || n.v > n.to {
			return fmt.Errorf("--%s is %d, want %d to %d", n.name, n.v, n.least, n.to)
		}
	}
	if _, known := modes[o.mode]; !known && o.mode != "all" {
		return fmt.Errorf("--mode is %q, want dense, sparse, pairs or all", o.mode)
	}
	if !(o.rate > 0 && o.rate <= 1) {
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
		if read, err = readCorpus(o.text, o.words, o.vocabulary); err != nil {
			return err
		}
	}
	corpus, err := share(ctx, c, read)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d words of text, %d of them different; %d vectors of %d elements, %d ranks\n",
		len(corpus.text), len(corpus.count), 2*len(corpus.count), o.dim, c.Size())
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
