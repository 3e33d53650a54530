// Hello prints one line per rank: its number, and its host.
//
//	treerun -np 8 ./examples/hello
//
// It is the smallest complete program: join the job, make a communicator, wait for
// all ranks, leave.
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
	// The ranks join the job.
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer w.Close()

	// They measure their links, or read the results of an earlier job, and agree on
	// their use.
	c, err := collective.New(ctx, w)
	if err != nil {
		return err
	}

	fmt.Printf("hello from rank %d of %d, local rank %d of %d on %s, process %d\n",
		w.Rank(), w.Size(), w.LocalRank(), w.LocalSize(), w.Host(), os.Getpid())

	// No rank passes the Barrier before all have reached it. Close returns failures that no call has returned.
	return errors.Join(collective.Barrier(ctx, c), c.Close())
}
