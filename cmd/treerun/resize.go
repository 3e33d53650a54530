//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/control"
)

const resizeUsage = `usage: treerun resize [JOB] -np N

resize changes the number of ranks of a running job that was started with
--on-failure respawn or shrink on this host, by the same user. New ranks start
on free slots of the job's hosts, and are taken in when the program leaves its
epoch: when it looks at World.Changed, or at the next failure. To make a job
smaller, the ranks with the highest numbers get SIGTERM. JOB is the job's id; it
may be left out where the user has one job here.

flags:
%s`

// runResize is the command resize.
func runResize(args []string) (int, error) {
	size, help := 0, false
	f := cmdline.NewFlags("treerun resize", &help)
	f.VarP(cmdline.Ranks(&size), "np", "n", "number of ranks that the job shall have")
	if len(args) > 1 && !strings.HasPrefix(args[0], "-") { // the job may come first
		args = append(args[1:], args[0])
	}
	if err := cmdline.Parse(f, args, ""); err != nil {
		return 0, cmdline.Usagef("%w", err)
	}
	switch {
	case help:
		fmt.Printf(resizeUsage, cmdline.Usages(f))
		return 0, nil
	case f.NArg() > 1:
		return 0, cmdline.Usagef("resize: want one job, not %s", strings.Join(f.Args(), " "))
	case size == 0:
		return 0, cmdline.Usagef("resize: -np is missing")
	}
	ctx := context.Background()
	id := f.Arg(0)
	if id == "" {
		jobs, err := control.Jobs(ctx)
		switch {
		case err != nil:
			return 0, err
		case len(jobs) == 0:
			return 0, fmt.Errorf("resize: no job of this user runs on this host")
		case len(jobs) > 1:
			return 0, cmdline.Usagef("resize: which job? %s run here", strings.Join(jobs, ", "))
		}
		id = jobs[0]
	}
	a, err := control.Ask(ctx, id, control.Request{Size: size})
	if err != nil {
		return 0, err
	}
	fmt.Println(a.Text)
	return 0, nil
}
