//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// parseVariable parses the flags in the variable, except those that the command line, args, takes back. The processes
// that treerun starts do not have the variable: a rank that runs treerun, too, has another job.
func (o *options) parseVariable(args []string) error {
	o.variable = os.Getenv(cmdline.FlagsVariable)
	_ = os.Unsetenv(cmdline.FlagsVariable) // the name is valid
	if o.variable == "" {
		return nil
	}
	words, err := cmdline.SplitWords(o.variable)
	if err == nil {
		line := newOptions()
		_ = cmdline.Parse(line.flags, args, othersFlags) // parse returns its error
		err = cmdline.ParseExcept(o.flags, words, othersFlags, line.takesBack)
	}
	if err == nil && o.flags.ArgsLenAtDash() >= 0 {
		err = errors.New("\"--\" is no flag")
	}
	if err == nil && o.flags.NArg() > 0 {
		err = fmt.Errorf("%q is no flag", o.flags.Arg(0))
	}
	if err != nil {
		return cmdline.Usagef("%s: %w", cmdline.FlagsVariable, err)
	}
	return nil
}

// takenBack are flags, some with a value, and those of the variable, some with a value, that do not count when the
// command line has them: without this they are errors.
var takenBack = map[string]string{
	"host":               "hostfile nnodes node-rank seed job-id key-file",
	"hostfile":           "host nnodes node-rank seed job-id key-file",
	"nnodes":             "host hostfile rankfile launch-agent ssh-args push",
	"node-rank":          "host hostfile rankfile launch-agent ssh-args push",
	"launch-agent":       "ssh-args",
	"ssh-args":           "launch-agent",
	"rankfile":           "map-by ppn bind-to cpus-per-rank",
	"map-by":             "rankfile",
	"ppn":                "rankfile",
	"bind-to":            "rankfile",
	"bind-to=none":       "cpus-per-rank map-by",
	"cpus-per-rank":      "rankfile bind-to=none",
	"gpu-bind=none":      "gpus ranks-per-gpu",
	"gpus":               "gpu-bind",
	"on-failure=stop":    "max-restarts min-np spares",
	"on-failure=restart": "min-np",
	"on-failure=shrink":  "max-restarts spares",
}

// takesBack reports whether the flags of o, those of the command line, take back a flag of the variable.
func (o *options) takesBack(name, of string) bool {
	for flag, others := range takenBack {
		flag, value, ofValue := strings.Cut(flag, "=")
		f := o.flags.Lookup(flag)
		if list := strings.Fields(others); f.Changed && (!ofValue || f.Value.String() == value) &&
			(slices.Contains(list, name) || slices.Contains(list, name+"="+of)) {
			return true
		}
	}
	return false
}
