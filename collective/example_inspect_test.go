package collective_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Options of New; all ranks pass the same ones.
func ExampleNew_options() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	onRanks(2, func(c *collective.Comm) error { return collective.Barrier(ctx, c) },
		collective.WithLogger(log),                 // long waits, and with treerun -v the plans
		collective.WithStallReport(30*time.Second), // length of a wait before it is reported
		collective.WithSlots(8, 32<<10),            // of each link
		collective.WithStableOrder(),               // sums have the same bits for all lengths
		collective.WithTopoCache(""))               // links are measured again
	// Output:
}

// The known links, and the plans that calls use for them.
func ExampleComm_Explain() {
	g, _ := topo.Machine("two-sockets")
	onRanks(8, func(c *collective.Comm) error {
		if c.Rank() > 0 {
			return nil
		}
		choice, err := c.Choice(plan.AllReduce, -1, 64<<20)
		if err != nil {
			return err
		}
		fmt.Println(c.Graph().Name, len(c.Graph().Links), "links")
		fmt.Println("64 MiB by", choice.Algorithm)
		fmt.Println(strings.Contains(c.Explain(), choice.Algorithm))
		return nil
	}, collective.WithGraph(g))
	// Output:
	// two-sockets 28 links
	// 64 MiB by chain
	// true
}

// One host has no network that could limit a call. Between describes the origin of the graph between hosts.
func ExampleComm_NetworkLimit() {
	onRanks(2, func(c *collective.Comm) error {
		if c.Rank() == 0 {
			fmt.Println(c.NetworkLimit(plan.AllReduce, -1), c.Between() == nil)
		}
		return nil
	})
	// Output: 0 true
}

// The time of a program's calls as a table, at its end.
func ExampleStats_String() {
	onRanks(2, func(c *collective.Comm) error {
		err := collective.Barrier(ctx, c)
		if table := c.Stats().String(); c.Rank() == 0 {
			fmt.Println(strings.Contains(table, "Barrier"))
		}
		return err
	})
	// Output: true
}
