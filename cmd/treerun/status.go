//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/control"
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/internal/numbers"
)

const statusUsage = `usage: treerun status [JOB] [flags]

status shows what the ranks of a running job do, and why they wait: the rank
that the others wait for, its call, the state of its process, and its line of
the program. It looks from outside, so it also works when ranks are stopped,
blocked or computing. The launcher of the job must be on this host, and belong
to the same user. JOB is the job's id; it may be left out where the user has
one job here. With several jobs and no JOB each gets a line.

flags:
%s`

// watchEvery is the time between two looks of --watch.
const watchEvery = time.Second

// runStatus is the command status.
func runStatus(args []string) (int, error) {
	var request control.Request
	help, asJSON, watch := false, false, false
	f := cmdline.NewFlags("treerun status", &help)
	f.BoolVar(&asJSON, "json", false, "print a line of JSON for each job")
	f.BoolVar(&watch, "watch", false, "look again every second, until Ctrl-C or the end of the job")
	f.Var(cmdline.RankSet(&request.Stacks), "stacks", "also print the goroutines of these `RANKS`, as 0,4-7")
	if err := cmdline.Parse(f, args, ""); err != nil {
		return 0, cmdline.Usagef("%w", err)
	}
	switch {
	case help:
		fmt.Printf(statusUsage, cmdline.Usages(f))
		return 0, nil
	case f.NArg() > 1:
		return 0, cmdline.Usagef("status: want one job, not %d", f.NArg())
	}
	ctx := context.Background()
	ids := f.Args()
	if len(ids) == 0 {
		var err error
		if ids, err = control.Jobs(ctx); err != nil {
			return 0, err
		}
		if len(ids) == 0 {
			fmt.Fprintln(os.Stderr, "treerun: no job of this user runs on this host")
			return 0, nil
		}
		if len(ids) > 1 && len(request.Stacks) > 0 {
			return 0, cmdline.Usagef("status: --stacks of which job? %s run here", strings.Join(ids, ", "))
		}
	}
	for looks := 0; ; looks++ {
		for _, id := range ids {
			switch err := printStatus(ctx, id, request, asJSON, len(ids) > 1, watch); {
			case err != nil && looks > 0:
				fmt.Fprintf(os.Stderr, "treerun: job %s has ended\n", id)
				return 0, nil
			case err != nil && len(ids) > 1:
				fmt.Fprintf(os.Stderr, "treerun: %v\n", err)
			case err != nil:
				return 0, err
			}
		}
		if !watch {
			return 0, nil
		}
		time.Sleep(watchEvery)
	}
}

// printStatus looks into a job, and prints what it sees.
func printStatus(ctx context.Context, id string, r control.Request, asJSON, brief, redraw bool) error {
	a, err := control.Ask(ctx, id, r)
	switch {
	case err != nil:
		return err
	case a.Job == nil:
		return fmt.Errorf("job %s: the launcher has sent no state (is it of another version of treerun?)", id)
	case !a.Job.Has(r.Stacks):
		return fmt.Errorf("job %s: not all of these run: %s (hint: treerun status %[1]s lists those that do)", id,
			inspect.RanksText(r.Stacks))
	case asJSON:
		verdict := inspect.Judge(a.Job)
		return a.Job.JSON(os.Stdout, &verdict)
	case brief:
		fmt.Printf("%s  %s  %s  %s\n", id, a.Job.Program, numbers.Count(len(a.Job.Ranks), "rank"), a.Text)
		return nil
	case redraw && term.IsTerminal(1):
		fmt.Print("\x1b[H\x1b[2J")
	}
	return a.Job.Print(os.Stdout, a.Text)
}
