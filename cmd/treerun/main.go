// Treerun starts the ranks of a job and runs them as one program; treerun --help
// tells how. What it does is in the packages below internal.
package main

import (
	"os"

	"github.com/treerun/treerun/cmd/treerun/internal/agent"
	"github.com/treerun/treerun/cmd/treerun/internal/cli"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
)

func main() {
	switch {
	case host.IsGuard(os.Args[1:]):
		os.Exit(cmdline.ExitCode(host.RunGuard(os.Args[1:])))
	case agent.Is(os.Args[1:]):
		os.Exit(agent.Main())
	}
	os.Exit(cli.Main(os.Args[1:]))
}
