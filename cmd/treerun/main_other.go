//go:build !linux

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/cmd/treerun/internal/planner"
	"github.com/treerun/treerun/internal/job"
)

//go:embed help/other.txt
var helpText string

// commandsWithFlags are the commands with flags, in the order of the manual.
var commandsWithFlags = []string{"topo", "plan", "sim"}

func printHelp() error {
	_, err := fmt.Print(helpText)
	return err
}

// runJob is the command without a name, and all commands that need Linux: an error.
func runJob(args []string) (int, error) {
	if len(args) == 0 || slices.Contains([]string{"-h", "--help"}, args[0]) {
		return 0, printHelp()
	}
	if args[0] == "--version" {
		return 0, printVersion()
	}
	what := "starting a job"
	if slices.Contains([]string{"bench", "check", "resize", "status"}, args[0]) {
		what = args[0]
	}
	return 0, fmt.Errorf("%s needs Linux (%s)", what, job.HintSystem)
}

func measureTopo(int, *planner.Places) (*planner.Measured, int, error) {
	return nil, 0, errors.New("links are measured on Linux only (hint: --graph FILE shows a graph)")
}
