// Command report writes the results of treerun's simulator as a report: a page
// of Markdown and a plot for every figure of package figures.
//
//	go run ./collective/sim/figures/report docs/results
//
// The folder gets simulated.md and an SVG file per figure. The same sources
// write the same bytes. It is no part of the command treerun, which does not
// carry the library that draws.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/treerun/treerun/collective/sim/figures"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: report FOLDER")
		os.Exit(64)
	}
	if err := report(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "report: %v\n", err)
		os.Exit(1)
	}
}

// report writes all files; the folder may be there.
func report(folder string) error {
	all, err := figures.All()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for i := range all {
		svg, err := drawn(&all[i])
		if err != nil {
			return fmt.Errorf("figure %s: %w", all[i].Name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, svgName(&all[i])), svg, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, "simulated.md"), []byte(page(all)), 0o644)
}

func svgName(f *figures.Figure) string { return "simulated-" + f.Name + ".svg" }
