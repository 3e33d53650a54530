package collective_test

import (
	"fmt"

	"github.com/treerun/treerun/collective"
)

// Where has the time gone? Time and Waiting are in Stats as well.
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
