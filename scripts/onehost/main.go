// Onehost makes the page docs/results/one-host.md and its plots from what
// scripts/one-host.sh measured: treerun beside Open MPI, MPICH and Gloo.
//
//	go run ./scripts/onehost docs/results/one-host.tsv
//
// The page is written beside the record. Nothing imports this package.
package main

import (
	"fmt"
	"os"

	"github.com/treerun/treerun/scripts/internal/results"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "onehost:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: onehost RECORD, got %d arguments", len(args))
	}
	return results.WriteBeside(args[0], func(text []byte) (map[string][]byte, error) {
		r, err := parse(text)
		if err != nil {
			return nil, err
		}
		return page(r)
	})
}
