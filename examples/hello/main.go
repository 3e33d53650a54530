// Hello prints one line per rank: who it is, and where.
//
//	treerun -np 8 ./examples/hello
//
// It is the smallest whole program: join the job, make a communicator, wait for
// everybody, leave.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	// The ranks find each other.
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer w.Close()

	// They measure their links, or know them from an earlier job, and agree on
	// how to use them.
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}

	fmt.Printf("hello from rank %d of %d, local rank %d of %d on %s, process %d\n",
		w.Rank(), w.Size(), w.LocalRank(), w.LocalSize(), w.Host(), os.Getpid())

	// No rank passes before all have come here. A failure that no call has returned comes from Close.
	return errors.Join(collective.Barrier(ctx, c), c.Close())
}
