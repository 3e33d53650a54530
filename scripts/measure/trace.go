package main

import (
	"strconv"
	"time"

	"github.com/treerun/treerun/collective"
)

// trace times AllReduces, for scripts/trace-cost.sh. Rank 0 prints a line for each size: the bytes, and the time of a
// call in microseconds, in the fastest of many passes: others on a busy machine make some slower. SECONDS is the time
// of all passes of a size. With observe the communicator has an observer.
func trace(args []string) {
	const passes = 15
	var opts []collective.Option
	observed := time.Duration(0)
	if args[0] == "observe" {
		args = args[1:]
		opts = append(opts, collective.WithObserver(func(e collective.Event) { observed += e.Took }))
	}
	seconds := must(strconv.ParseFloat(args[0], 64))
	run(func(c *collective.Comm) {
		for _, arg := range args[1:] {
			size := number(arg)
			x := make([]float32, size/4)
			us := least(c, passes, seconds/passes, func() { check(collective.AllReduce(ctx, c, x, x, collective.Max)) })
			show(c, "%d %v", size, us)
		}
	}, opts...)
}
