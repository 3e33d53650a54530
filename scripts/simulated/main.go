// Command simulated writes what treerun's simulator says of the figures of the design
// documents: a page of Markdown and a plot for every figure. In the root of the repository:
//
//	go run ./scripts/simulated docs/results
//
// The folder gets simulated.md and an SVG file per figure. The numbers come from files in
// testdata that tests of collective/sim and collective/sparse/omni compute; they are written
// anew with go test -run TestFigures PACKAGE -rewrite. The same files give the same page.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: simulated FOLDER")
		os.Exit(64)
	}
	if err := report(".", os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "simulated: %v\n", err)
		os.Exit(1)
	}
}

// report writes all files from the numbers below root; the folder may be there.
func report(root, folder string) error {
	text, all, err := made(root)
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
	return os.WriteFile(filepath.Join(folder, "simulated.md"), []byte(text), 0o644)
}

// made returns the page and its figures.
func made(root string) (string, []Figure, error) {
	tables, err := sections(root)
	if err != nil {
		return "", nil, err
	}
	all := list()
	r := &results{make(map[string]*Figure), tables}
	for i := range all {
		f := &all[i]
		if f.from != nil {
			f.Series, err = f.from(tables)
		} else if f.Series, err = curves(tables[f.Name]); err == nil {
			f.Crossings = crossings(f.Series)
		}
		if err != nil {
			return "", nil, fmt.Errorf("figure %s: %w", f.Name, err)
		}
		r.figures[f.Name] = f
	}
	text, err := page(all, r)
	return text, all, err
}

func svgName(f *Figure) string { return "simulated-" + f.Name + ".svg" }
