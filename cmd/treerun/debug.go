//go:build linux

package main

import (
	"errors"
	"os"

	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
)

// withoutLimits takes all limits of time from a job with ranks in a debugger.
func (o *options) withoutLimits(j *launch.Job) {
	const never = "27h" // the longest that connections accept
	j.Settings["start-timeout"], j.Settings["peer-timeout"] = never, never
	if delete(j.Settings, "stall-timeout"); o.anyChanged("timeout", "stall-timeout") {
		j.Screen.Err.Printf("treerun: no limit of time holds while %s in the debugger", isRanks(j.Debug))
	}
	j.Timeout = 0
}

func isRanks(ranks []int) string {
	if len(ranks) == 1 {
		return ranksText(ranks) + " is"
	}
	return ranksText(ranks) + " are"
}

// runDebug is the process of a rank of --debug: see host.DebugCommand.
func runDebug(args []string) (int, error) {
	if len(args) < 4 {
		return 0, errors.New("a rank in the debugger is started by treerun, not by users")
	}
	d := host.Debugged{Host: args[0], Delve: args[1], Path: args[2], Args: args[3:], Env: os.Environ()}
	return d.Run()
}
