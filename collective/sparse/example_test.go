package sparse_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse"
	"github.com/treerun/treerun/internal/testutil"
)

// The last rank of three only aggregates; the others add up a tensor of which they have
// different blocks. In a program, world is rank.Init's.
func ExampleServe() {
	ctx := context.Background()
	body := func(world collective.World) (err error) {
		c, err := collective.New(ctx, world, collective.WithTopoCache(""),
			collective.WithGraph(testutil.GraphOn(testutil.OneHost(3))))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		if c.Rank() == 2 {
			return sparse.Serve(ctx, c) // until the workers call StopServing
		}
		grad := make([]float32, 1024)
		grad[512*c.Rank()] = float32(c.Rank() + 1)
		stats, err := sparse.AllReduce(ctx, c, grad, grad, collective.Sum)
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(grad[0], grad[512], "by", stats.Form, "on", stats.Servers, "rank that serves")
		}
		return sparse.StopServing(ctx, c)
	}
	job := testutil.NewJob(testutil.OneHost(3)...)
	var ranks sync.WaitGroup
	for r := range 3 {
		ranks.Go(func() {
			if err := body(job.World(r)); err != nil {
				fmt.Println("rank", r, err)
			}
		})
	}
	ranks.Wait()
	// Output: 1 2 by aggregators on 1 rank that serves
}
