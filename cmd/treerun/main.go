// Treerun starts the ranks of a job on this host and runs them as one program;
// treerun --help tells how. What it does is in the packages below internal.
package main

import (
	"os"

	"github.com/treerun/treerun/cmd/treerun/internal/cli"
	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/cmd/treerun/internal/guard"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == guard.Command {
		os.Exit(exitcode.Of(guard.Run(os.Args[2])))
	}
	os.Exit(cli.Main(os.Args[1:]))
}
