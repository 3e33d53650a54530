// Command chaos shows that jobs live on. With arguments it runs many jobs, sends their processes signals at random
// times, and prints a table. Without, it is a rank of such a job: it calls collectives, checks every result, and
// continues after failures with rank.Worlds. For scripts/chaos.sh.
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
