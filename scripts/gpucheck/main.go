// Command gpucheck runs everything that treerun does on GPUs on a machine that has
// some, one or more, and writes what it finds as JSON, from which it makes a page:
// see scripts/gpu-check.sh. It is the ranks of the jobs that it starts as well, which
// the tests of the command use on a fake host. Nothing imports it.
//
//	gpucheck all --treerun FILE [--json FILE]   everything
//	gpucheck rank MODE                          a rank of a job
//	gpucheck alone                              what one process does by itself: the kernels
//	gpucheck page [JSON] PAGE                   the page of what was found, if there is something
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
)

const allReduceKind = plan.AllReduce

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "gpucheck: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	const usage = "usage: gpucheck all|rank|alone|page [OPTIONS]"
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "all":
		return runAll(args[1:])
	case "rank":
		return runRank(args[1:])
	case "alone":
		return alone()
	case "page":
		return page(args[1:])
	}
	return errors.New(usage)
}

// alone runs the kernels, for tools that watch a process.
func alone() error {
	all, err := cuda.Devices()
	switch {
	case err != nil:
		return err
	case len(all) == 0:
		return errors.New("this process sees no GPU")
	}
	_, err = kernelsAreRight(context.Background(), all[0])
	return err
}
