package collective_test

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective"
)

// The ranks of each host work together; rank 0 of each could exchange results with other hosts.
func ExampleComm_SplitByHost() {
	onRanks(4, func(c *collective.Comm) error {
		host, err := c.SplitByHost(ctx)
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(host.Size(), "ranks on this host")
		}
		return host.Close()
	})
	// Output: 4 ranks on this host
}

// Rank 0 takes the results of the others in the order in which they come, and then waits for the next one of that rank.
func ExampleWaitAny() {
	onRanks(3, func(c *collective.Comm) error {
		const each = 8
		if c.Rank() > 0 {
			for i := range each {
				if err := collective.Send(ctx, c, []int{i}, 0, 1); err != nil {
					return err
				}
			}
			return nil
		}
		results, left := make([]int, c.Size()), []int{0, each, each}
		pending, sum := make([]collective.Message, c.Size()), 0
		next := func(r int) (err error) {
			pending[r] = collective.Message{} // which WaitAny ignores
			if left[r]--; left[r] >= 0 {
				pending[r], err = collective.StartRecv(c, results[r:r+1], r, 1)
			}
			return err
		}
		err := errors.Join(next(1), next(2))
		for err == nil {
			var r int
			if r, err = collective.WaitAny(ctx, pending...); r < 0 || err != nil {
				break
			}
			sum += results[r]
			err = next(r)
		}
		fmt.Println("sum", sum)
		return err
	})
	// Output: sum 56
}

func ExampleWaitAll() {
	onRanks(2, func(c *collective.Comm) error {
		var all []collective.Message
		got := make([]int, 3)
		for i := range got {
			in, err := collective.StartRecv(c, got[i:i+1], 1-c.Rank(), i)
			if err != nil {
				return err
			}
			out, err := collective.StartSend(c, []int{10 * i}, 1-c.Rank(), i)
			if err != nil {
				return err
			}
			all = append(all, in, out)
		}
		err := collective.WaitAll(ctx, all...)
		if c.Rank() == 0 {
			fmt.Println(got)
		}
		return err
	})
	// Output: [0 10 20]
}
