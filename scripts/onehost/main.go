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
	"path/filepath"
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
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	r, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	files, err := page(r)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(filepath.Dir(args[0]), name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
