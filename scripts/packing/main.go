// Packing makes the page docs/results/packing.md: what packings of trees reach on
// networks between data centres, between hosts and between GPUs, with at most K
// trees, under a height, and above a least rate.
//
//	packing page FOLDER     writes packing.md
//	packing graph NETWORK   prints the graph file of one of its networks
//
// The same sources write the same bytes. Nothing imports this package.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const pageName = "packing.md"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "packing:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: packing page FOLDER | packing graph NETWORK")
	}
	switch all := networks(); args[0] {
	case "page":
		text, err := page(all)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(args[1], pageName), text, 0o644)
	case "graph":
		for _, n := range all {
			if n.graph.Name == args[1] {
				text, err := n.graph.AppendJSON(nil)
				if err == nil {
					_, err = os.Stdout.Write(append(text, '\n'))
				}
				return err
			}
		}
	}
	return fmt.Errorf("there is no %s %s", args[0], args[1])
}
