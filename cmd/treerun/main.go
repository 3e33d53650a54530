// Treerun starts the ranks of a job and runs them as one program; treerun --help
// tells how. What it does is in the packages below internal.
package main

import (
	"os"

	"github.com/treerun/treerun/cmd/treerun/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
