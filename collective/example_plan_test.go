package collective_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// onRanks makes a communicator of n ranks of this process, and calls body as each.
func onRanks(n int, body func(c *collective.Comm) error, opts ...collective.Option) {
	var all sync.WaitGroup
	for _, w := range collective.InProcess(n) {
		all.Go(func() {
			c, err := collective.New(context.Background(), w, opts...)
			if err != nil {
				log.Fatal(err)
			}
			if err := errors.Join(body(c), c.Close()); err != nil {
				log.Fatal(err)
			}
		})
	}
	all.Wait()
}

// sum adds up x over all ranks, and prints the sums and the algorithm on rank 0.
func sum(c *collective.Comm) error {
	x := []float32{1, 2, 3}
	if err := collective.AllReduce(context.Background(), c, x, x, collective.Sum); err != nil {
		return err
	}
	choice, err := c.Choice(plan.AllReduce, 0, 12)
	if err == nil && c.Rank() == 0 {
		fmt.Println(x, "by", choice.Name)
	}
	return err
}

// Large messages use at most four packed trees, and those below 1 MiB use one.
func ExampleWithAlgorithm() {
	g, _ := topo.Machine("dgx1v")
	onRanks(8, sum, collective.WithGraph(g),
		collective.WithAlgorithm("packing", collective.Planning{MaxTrees: 4}))
	// Output:
	// [8 16 24] by packing:one
}

// Without a measurement: plans are made for the links of a machine, or of a graph file (topo.ParseGraph). The two
// sockets here have 41.6 GB/s between them.
func ExampleWithGraph() {
	g, _ := topo.Machine("two-sockets")
	onRanks(8, func(c *collective.Comm) error {
		if c.Rank() == 0 {
			fmt.Println("an AllToAll has the choice of", c.Algorithms(plan.AllToAll))
		}
		return nil
	}, collective.WithGraph(g))
	// Output:
	// an AllToAll has the choice of [direct:single direct:split]
}

// A handwritten plan: rank 1 adds its values to those of rank 0, and sends the sums back. It has no trees; all other
// fields that `treerun plan --format json` prints are optional or for people.
func ExampleWithPlan() {
	made, err := plan.Star(plan.AllReduce, 2, 1)
	if err != nil {
		log.Fatal(err)
	}
	file := &plan.File{Algorithm: "mine", Collective: plan.AllReduce, Digest: made.Digest()}
	onRanks(2, sum, collective.WithPlan(file, made))
	// Output:
	// [2 4 6] by mine
}

// A benchmark of plans keeps those of New for all of its calls, also on several hosts.
func ExampleWithoutReplan() {
	onRanks(2, func(c *collective.Comm) error {
		return collective.Barrier(ctx, c)
	}, collective.WithoutReplan())
	// Output:
}
