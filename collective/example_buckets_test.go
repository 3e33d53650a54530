package collective_test

import (
	"fmt"

	"github.com/treerun/treerun/collective"
)

// The gradients of a layer travel while those of the layers before it are computed.
func ExampleNewBuckets() {
	onRanks(4, func(c *collective.Comm) error {
		gradients := [][]float32{make([]float32, 2), make([]float32, 3), make([]float32, 1)}
		buckets, err := collective.NewBuckets(ctx, c, gradients, collective.Avg, 0)
		if err != nil {
			return err
		}
		for range 3 { // steps
			for layer := len(gradients) - 1; layer >= 0; layer-- {
				for k := range gradients[layer] { // this rank's part of the batch
					gradients[layer][k] = float32(10*layer + c.Rank())
				}
				if err := buckets.Ready(layer); err != nil {
					return err
				}
			}
			if err := buckets.Wait(ctx); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Println(gradients)
		}
		return nil
	})
	// Output: [[1.5 1.5] [11.5 11.5 11.5] [21.5]]
}
