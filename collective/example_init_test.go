package collective_test

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective"
)

// run runs persistent calls one after the other.
func run(calls ...*collective.Persistent) error {
	for _, p := range calls {
		if err := p.Run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A loop whose slices stay the same: rank 0 sets the parameters, all ranks compute, and rank 0 gets the sum.
func ExamplePersistent_Run() {
	onRanks(2, func(c *collective.Comm) error {
		x, y := make([]int, 1), make([]int, 1)
		hand, err1 := collective.BroadcastInit(c, x, x, 0)
		add, err2 := collective.ReduceInit(c, y, y, collective.Sum, 0)
		meet, err3 := collective.BarrierInit(c)
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		for step := range 3 {
			if c.Rank() == 0 {
				x[0] = step
			}
			if err := hand.Run(ctx); err != nil {
				return err
			}
			y[0] = x[0] * 10
			if err := run(add, meet); err != nil {
				return err
			}
			if c.Rank() == 0 {
				fmt.Println(y)
			}
		}
		return nil
	})
	// Output:
	// [0]
	// [20]
	// [40]
}

// Each rank keeps a part of the model's parameters.
func ExampleReduceScatterInit() {
	onRanks(2, func(c *collective.Comm) error {
		weights, grad, sum := []float32{10, 20}, []float32{1, 2}, make([]float32, 1)
		mine := weights[c.Rank() : c.Rank()+1]
		add, err1 := collective.ReduceScatterInit(c, grad, sum, collective.Sum)
		hand, err2 := collective.AllGatherInit(c, mine, weights)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		for range 2 {
			if err := add.Run(ctx); err != nil {
				return err
			}
			mine[0] -= sum[0]
			if err := hand.Run(ctx); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Println(weights)
		}
		return nil
	})
	// Output: [6 12]
}

// Rank 0 scatters tasks, and gathers the results.
func ExampleScatterInit() {
	onRanks(2, func(c *collective.Comm) error {
		tasks, results, mine := []int{3, 4}, make([]int, 2), make([]int, 1)
		deal, err1 := collective.ScatterInit(c, tasks, mine, 0)
		collect, err2 := collective.GatherInit(c, mine, results, 0)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if err := deal.Run(ctx); err != nil {
			return err
		}
		mine[0] *= mine[0]
		if err := collect.Run(ctx); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(results)
		}
		return nil
	})
	// Output: [9 16]
}

// The same for parts of different lengths, and for all ranks.
func ExampleScatterVInit() {
	onRanks(2, func(c *collective.Comm) error {
		counts, tasks := []int{1, 2}, []int{3, 4, 5}
		mine, sums := make([]int, counts[c.Rank()]), make([]int, counts[c.Rank()])
		some, all := make([]int, 3), make([]int, 3)
		deal, err1 := collective.ScatterVInit(c, tasks, mine, counts, 0)
		add, err2 := collective.ReduceScatterVInit(c, tasks, sums, counts, collective.Sum)
		collect, err3 := collective.GatherVInit(c, mine, some, counts, 0)
		hand, err4 := collective.AllGatherVInit(c, sums, all, counts)
		err := errors.Join(err1, err2, err3, err4)
		if err == nil {
			err = run(deal, add, collect, hand)
		}
		if c.Rank() == 0 {
			fmt.Println(some, all)
		}
		return err
	})
	// Output: [3 4 5] [6 8 10]
}

// The rows of a matrix are exchanged for its columns, repeatedly.
func ExampleAllToAllInit() {
	onRanks(2, func(c *collective.Comm) error {
		row, column := []int{10 * c.Rank(), 10*c.Rank() + 1}, make([]int, 2)
		turn, err := collective.AllToAllInit(c, row, column)
		if err != nil {
			return err
		}
		err = turn.Run(ctx)
		if c.Rank() == 1 {
			fmt.Println(column)
		}
		return err
	})
	// Output: [1 11]
}

// The factor is set by the Init.
func ExampleAllReducePreMulInit() {
	onRanks(2, func(c *collective.Comm) error {
		loss, norm, grad, part := []float64{4}, []float64{2}, []float64{8, 16}, make([]float64, 1)
		share := []float64{0.25, 0.75}[c.Rank()]
		all, err1 := collective.AllReducePreMulInit(c, norm, norm, share)
		one, err2 := collective.ReducePreMulInit(c, loss, loss, share, 0)
		parts, err3 := collective.ReduceScatterPreMulInit(c, grad, part, share)
		err := errors.Join(err1, err2, err3)
		if err == nil {
			err = run(all, one, parts)
		}
		if c.Rank() == 0 {
			fmt.Println(norm, loss, part)
		}
		return err
	})
	// Output: [2] [4] [8]
}
