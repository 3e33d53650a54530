package collective_test

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective"
)

// Each rank keeps a part of the model's parameters, as in ZeRO and FSDP: it gets the sum of its part of the gradients,
// makes its step, and sends the part to all ranks.
func ExampleStartReduceScatter() {
	onRanks(2, func(c *collective.Comm) error {
		weights, grad := []float32{10, 20}, []float32{1, 2}
		mine := weights[c.Rank() : c.Rank()+1]
		sum := make([]float32, 1)
		r, err := collective.StartReduceScatter(c, grad, sum, collective.Sum)
		if err != nil {
			return err
		}
		// The next batch is read here.
		if err := r.Wait(ctx); err != nil {
			return err
		}
		mine[0] -= sum[0]
		if r, err = collective.StartAllGather(c, mine, weights); err != nil {
			return err
		}
		err = r.Wait(ctx)
		if c.Rank() == 0 {
			fmt.Println(weights)
		}
		return err
	})
	// Output: [8 16]
}

// Three calls are in flight at once. They are done in the order in which they began: a wait for the last one waits for
// all.
func ExampleStartScatter() {
	onRanks(3, func(c *collective.Comm) error {
		scale, tasks, results := []int{0}, []int(nil), []int(nil)
		if c.Rank() == 0 {
			scale, tasks, results = []int{100}, []int{1, 2, 3}, make([]int, 3)
		}
		mine := make([]int, 1)
		_, err := collective.StartBroadcast(c, scale, scale, 0)
		if err != nil {
			return err
		}
		begun, err := collective.StartScatter(c, tasks, mine, 0)
		if err != nil {
			return err
		}
		if err := begun.Wait(ctx); err != nil {
			return err
		}
		mine[0] *= scale[0]
		end, err := collective.StartGather(c, mine, results, 0)
		if err != nil {
			return err
		}
		err = end.Wait(ctx)
		if c.Rank() == 0 {
			fmt.Println(results)
		}
		return err
	})
	// Output: [100 200 300]
}

// A rank works until the other ranks have called: Test makes progress on the calls in flight, and does not wait.
func ExampleRequest_Test() {
	onRanks(3, func(c *collective.Comm) error {
		losses := []float64{float64(c.Rank())}
		if _, err := collective.StartReduce(c, losses, losses, collective.Max, 0); err != nil {
			return err
		}
		all, err := collective.StartBarrier(c)
		for done := false; !done && err == nil; {
			done, err = all.Test() // and some work
		}
		if c.Rank() == 0 {
			fmt.Println("the greatest loss:", losses)
		}
		return err
	})
	// Output: the greatest loss: [2]
}

// The rows of a matrix are exchanged for its columns.
func ExampleStartAllToAll() {
	onRanks(2, func(c *collective.Comm) error {
		row, column := []int{10 * c.Rank(), 10*c.Rank() + 1}, make([]int, 2)
		r, err := collective.StartAllToAll(c, row, column)
		if err != nil {
			return err
		}
		err = r.Wait(ctx)
		if c.Rank() == 1 {
			fmt.Println(column)
		}
		return err
	})
	// Output: [1 11]
}

// Rank 0 scatters five tasks to two ranks while a ReduceScatterV adds up the ranks' values for each task; rank 0
// gathers the sums. The Gather reads the result of another call, and so begins when that is done.
func ExampleStartScatterV() {
	onRanks(2, func(c *collective.Comm) error {
		counts, tasks := []int{2, 3}, []int{1, 2, 3, 4, 5}
		mine, sums := make([]int, counts[c.Rank()]), make([]int, counts[c.Rank()])
		_, err1 := collective.StartScatterV(c, tasks, mine, counts, 0)
		added, err2 := collective.StartReduceScatterV(c, tasks, sums, counts, collective.Sum)
		all := make([]int, len(tasks))
		if err := errors.Join(err1, err2, added.Wait(ctx)); err != nil {
			return err
		}
		r, err := collective.StartGatherV(c, sums, all, counts, 0)
		if err != nil {
			return err
		}
		err = r.Wait(ctx)
		if c.Rank() == 0 {
			fmt.Println(mine, all)
		}
		return err
	})
	// Output: [1 2] [2 4 6 8 10]
}

// Means weighted by shares of the samples: for rank 0, and a part for every rank.
func ExampleReducePreMul() {
	onRanks(2, func(c *collective.Comm) error {
		loss, grad, part := []float64{4}, []float64{8, 16}, make([]float64, 1)
		share := []float64{0.25, 0.75}[c.Rank()]
		err := errors.Join(
			collective.ReducePreMul(ctx, c, loss, loss, share, 0),
			collective.ReduceScatterPreMul(ctx, c, grad, part, share))
		if c.Rank() == 0 {
			fmt.Println(loss, part)
		}
		return err
	})
	// Output: [4] [8]
}

// The same, and for all ranks, in the background.
func ExampleStartReducePreMul() {
	onRanks(2, func(c *collective.Comm) error {
		loss, norm, grad, part := []float64{4}, []float64{2}, []float64{8, 16}, make([]float64, 1)
		share := []float64{0.25, 0.75}[c.Rank()]
		_, err1 := collective.StartReducePreMul(c, loss, loss, share, 0)
		_, err2 := collective.StartAllReducePreMul(c, norm, norm, share)
		r, err3 := collective.StartReduceScatterPreMul(c, grad, part, share)
		if err := errors.Join(err1, err2, err3, r.Wait(ctx)); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(loss, norm, part)
		}
		return nil
	})
	// Output: [4] [2] [8]
}

// The parameters of all layers as one message, and then their gradients.
func ExampleStartAllReduceCoalesced() {
	onRanks(2, func(c *collective.Comm) error {
		x := float32(c.Rank())
		layers, grads := [][]float32{{5 - x, 6 - x}, {7 - x}}, [][]float32{{x, 1}, {2}}
		_, err := collective.StartBroadcastCoalesced(c, layers, layers, 0)
		if err != nil {
			return err
		}
		r, err := collective.StartAllReduceCoalesced(c, grads, grads, collective.Sum)
		if err != nil {
			return err
		}
		err = r.Wait(ctx)
		if c.Rank() == 1 {
			fmt.Println(layers, grads)
		}
		return err
	})
	// Output: [[5 6] [7]] [[1 2] [4]]
}
