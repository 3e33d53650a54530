package sparse_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse"
	"github.com/treerun/treerun/cuda"
)

// onRanks makes a communicator of n ranks of this process, and calls body as each.
func onRanks(n int, body func(ctx context.Context, c *collective.Comm) error) {
	var ranks sync.WaitGroup
	for _, w := range collective.InProcess(n) {
		ranks.Go(func() {
			ctx := context.Background()
			c, err := collective.New(ctx, w)
			if err != nil {
				log.Fatal(err)
			}
			if err := errors.Join(body(ctx, c), c.Close()); err != nil {
				log.Fatal(err)
			}
		})
	}
	ranks.Wait()
}

// A gradient in which most blocks are zero, in blocks of 64 elements and in the form that a flag of the program names.
func ExampleAllReduce() {
	onRanks(2, func(ctx context.Context, c *collective.Comm) error {
		form, err := sparse.ParseForm("trees") // "": the fastest by price
		if err != nil {
			return err
		}
		grad := make([]float32, 64*100)
		grad[64*c.Rank()] = 1
		stats, err := sparse.AllReduce(ctx, c, grad, grad, collective.Sum, sparse.BlockSize(64), sparse.Use(form))
		if c.Rank() == 0 {
			fmt.Println(grad[0], grad[64], "by", stats.Form.String())
			fmt.Println(stats.NonZero, "of", stats.Blocks, "blocks here,", stats.Union, "on all ranks")
		}
		return err
	})
	// Output:
	// 1 1 by trees
	// 1 of 100 blocks here, 2 on all ranks
}

// The gradient of an embedding: the rows of the words that each rank has seen.
func ExampleAllReducePairs() {
	onRanks(2, func(ctx context.Context, c *collective.Comm) error {
		mine := sparse.Pairs[float32]{Width: 2, Indices: []uint32{7, uint32(c.Rank())}, Values: []float32{1, 2, 3, 4}}
		all, _, err := sparse.AllReducePairs(ctx, c, mine)
		if c.Rank() == 0 {
			fmt.Println(all.Indices, all.Values)
		}
		return err
	})
	// Output: [0 1 7] [3 4 3 4 2 4]
}

// A gradient in GPU memory: work that is put into the stream later finds the result in it.
func ExampleAllReduceDevice() {
	step := func(ctx context.Context, c *collective.Comm, s *cuda.Stream, grad cuda.Slice[float32]) error {
		stats, err := sparse.AllReduceDevice(ctx, c, s, grad, grad, collective.Sum)
		if err != nil {
			return err
		}
		fmt.Println(stats.String())
		return c.SyncDevice(ctx, s)
	}
	_ = step // see collective's example AllReduceDevice
}
