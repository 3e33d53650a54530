//go:build linux

// Command hangs shows that treerun finds the reasons of hangs. It runs jobs, brings about one hang in each, and
// compares the output of treerun status and of the hang watch with it. With HANGS_KIND it is a rank of such a
// job. For scripts/hangs.sh.
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	var err error
	if os.Getenv("HANGS_KIND") == "" {
		err = drive(os.Args[1:])
	} else {
		err = work(context.Background(), os.Getenv("HANGS_KIND"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hangs:", err)
		os.Exit(1)
	}
}
