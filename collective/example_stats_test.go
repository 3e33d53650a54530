package collective_test

import (
	"fmt"

	"github.com/treerun/treerun/collective"
)

// The number of calls of each kind. Stats contains Time and Waiting as well.
func ExampleComm_Stats() {
	onRanks(2, func(c *collective.Comm) error {
		grad := make([]float32, 1000)
		for range 3 {
			if err := collective.AllReduce(ctx, c, grad, grad, collective.Avg); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			s := c.Stats()
			fmt.Println(s.Name)
			for _, of := range s.Calls {
				fmt.Println(of.Call, of.Count, "calls,", of.Bytes, "bytes")
			}
		}
		return nil
	})
	// Output:
	// world
	// AllReduce 3 calls, 12000 bytes
}

// Ranks leave after the same step, though the request to leave reaches them at different moments: here it reaches rank
// 1 only. In a job the request is a signal; see examples/shutdown.
func ExampleAllReduceValue_shutdown() {
	onRanks(3, func(c *collective.Comm) error {
		step := 0
		for leave := 0; leave == 0; step++ {
			if c.Rank() == 1 && step >= 4 { // told.Err() != nil, with told of signal.NotifyContext
				leave = 1
			}
			var err error
			if leave, err = collective.AllReduceValue(ctx, c, leave, collective.Max); err != nil {
				return err
			}
		}
		fmt.Println("leaves after", step, "steps") // saves its results here
		return nil
	})
	// Output:
	// leaves after 5 steps
	// leaves after 5 steps
	// leaves after 5 steps
}

// An observer gets every call of a rank when it ends.
func ExampleWithObserver() {
	onRanks(2, func(c *collective.Comm) error {
		observed, err := c.Dup(ctx, collective.WithObserver(func(e collective.Event) {
			if e.Call == "AllReduce" && e.Err == nil && e.Took >= e.Waited && e.Algorithm != "" {
				fmt.Println(e.Call, e.Number, "of", e.Bytes, "bytes")
			}
		}))
		if err != nil {
			return err
		}
		grad := make([]float32, 1000)
		if err := collective.AllReduce(ctx, observed, grad, grad, collective.Sum); err != nil {
			return err
		}
		return observed.Close()
	})
	// Unordered output:
	// AllReduce 1 of 4000 bytes
	// AllReduce 1 of 4000 bytes
}
