package collective_test

import (
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
