// Command gpucheck runs everything that treerun does on GPUs on a machine that has
// some, one or more, and writes what it finds as JSON, from which it makes a page:
// see scripts/gpu-check.sh. It is the ranks of the jobs that it starts as well, which
// the tests of the command use on a fake host. Nothing imports it.
//
//	gpucheck all --treerun FILE [--json FILE]   everything
//	gpucheck rank MODE                          a rank of a job
//	gpucheck alone kernels|streams              what one process does by itself
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
		return alone(args[1:])
	case "page":
		return page(args[1:])
	}
	return errors.New(usage)
}

// alone is a small run of the kernels, or of ranks as streams, for tools that watch a
// process.
func alone(args []string) error {
	ctx := context.Background()
	all, err := cuda.Devices()
	switch {
	case err != nil:
		return err
	case len(all) == 0:
		return errors.New("this process sees no GPU")
	case len(args) == 1 && args[0] == "kernels":
		_, err = kernelsAreRight(ctx, all[0])
	case len(args) == 1 && args[0] == "streams":
		_, err = asStreams(ctx, all[0], 2, 1<<20, 3)
	default:
		err = errors.New("usage: gpucheck alone kernels|streams")
	}
	return err
}
