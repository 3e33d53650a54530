//go:build linux

// Command chaos shows that jobs live on. With arguments it runs many jobs, brings about faults of their processes,
// hosts and networks at random times, and records what follows. Without, it is a rank of such a job: it calls
// collectives, checks every result, and continues after failures with rank.Worlds. For scripts/chaos.sh.
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	var err error
	if len(os.Args) > 1 {
		err = drive(os.Args[1:])
	} else {
		err = work(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}
