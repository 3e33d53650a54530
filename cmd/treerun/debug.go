//go:build linux

package main

import (
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
)

// withoutLimits takes all limits of time from a job with ranks in a debugger.
func (o *options) withoutLimits(j *launch.Job) {
	const never = "27h" // the longest that connections accept
	j.Settings["start-timeout"], j.Settings["peer-timeout"] = never, never
	if delete(j.Settings, "stall-timeout"); o.anyChanged("timeout", "stall-timeout") {
		j.Screen.Err.Printf("treerun: no limit of time holds while a debugger has %s", inspect.RanksText(j.Debug))
	}
	j.Timeout = 0
}
