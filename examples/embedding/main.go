// Embedding learns word vectors, by skip-gram with negative sampling, from the text
// of this machine's own documentation, data-parallel: a batch touches few of the
// words, so nearly all of its gradient is zero. The gradients of all ranks are added
// up in three ways, one training each: as one dense AllReduce, as a sparse one, and as
// lists of the rows that were touched. All result in the same vectors, bit by bit.
//
//	treerun -np 4 ./examples/embedding
//	treerun -np 4 ./examples/embedding --text /usr/share/doc --steps 200 --dim 128
//
// Gradients are fixed-point integers, whose sum does not depend on the order.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

// options are the settings of a training, the same on all ranks.
type options struct {
	text              string
	dim, batch, steps int
}

func main() {
	var o options
	flag.StringVar(&o.text, "text", "/usr/share/doc", "`folder` or file of text to read")
	flag.IntVar(&o.dim, "dim", 64, "elements of a vector")
	flag.IntVar(&o.batch, "batch", 1024, "pairs of a step, over all ranks")
	flag.IntVar(&o.steps, "steps", 300, "steps of each training")
	flag.Parse()
	if min(o.dim, o.batch, o.steps) < 1 || flag.NArg() > 0 {
		log.Fatalf("embedding: want flags only, and 1 or more as -dim, -batch and -steps, not %q", os.Args[1:])
	}
	if err := run(context.Background(), &o, os.Stdout); err != nil {
		log.Fatal("embedding: ", err)
	}
}

const (
	maxWords   = 2_000_000 // read of the text
	vocabulary = 30_000    // of the most frequent words are learned
	window     = 4         // the largest distance of a word and its context
	negatives  = 5         // words drawn against each pair
	seed       = 1         // of the first vectors and of the drawn words
	rate       = 0.05      // of learning from a pair
)

func run(ctx context.Context, o *options, out io.Writer) (err error) {
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
	var results []*result
	for _, m := range modes {
		r, err := train(ctx, c, o, corpus, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Fprintln(out, r)
		results = append(results, r)
	}
	return compare(out, results)
}

// compare prints the trainings next to the first; it is an error if their vectors
// differ.
func compare(out io.Writer, all []*result) error {
	for _, r := range all[1:] {
		if r.digest != all[0].digest {
			return fmt.Errorf("the vectors of %s and %s differ", all[0].mode, r.mode)
		}
		fmt.Fprintf(out, "%s against %s: the same vectors, %.1f times fewer bytes, %.2f of the time to add up\n",
			r.mode, all[0].mode, float64(all[0].bytes)/float64(max(r.bytes, 1)), r.adding.Seconds()/all[0].adding.Seconds())
	}
	return nil
}
