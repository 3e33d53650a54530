// Package bench is the subcommand bench of treerun: it measures collectives
// with ranks of its own on this host, and prints what they find as nccl-tests
// does, as JSON and as a picture. It is the launcher's side: what is measured
// stands in package suite, how in package meter, which runs in the ranks. Only
// package cli below cmd/treerun imports it.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/meter"
	"github.com/treerun/treerun/cmd/treerun/internal/bench/suite"
	"github.com/treerun/treerun/cmd/treerun/internal/bench/table"
	"github.com/treerun/treerun/cmd/treerun/internal/bench/tuner"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/selfrun"
)

// Subcommand is the name of bench, and of its ranks for selfrun.Name.
const Subcommand = "bench"

// WrongResults is the exit code when an element was not what it should be.
const WrongResults = 1

// Rank does a rank's part, with the arguments of the launcher. A signal simply
// ends it: it is the launcher that has something to say.
func Rank(args []string) (int, error) {
	o, err := suite.Parse(args)
	if err != nil {
		return 0, err
	}
	if err := meter.Rank(context.Background(), o, os.Stdout); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	return 0, nil
}

// Main runs the subcommand with the arguments after its name, and returns the
// exit code. Call it once per process.
func Main(args []string) (int, error) {
	o, err := suite.Parse(args)
	if err != nil {
		return 0, err
	}
	if o.Help {
		return 0, printHelp(o)
	}
	np, err := cmdline.DefaultRanks(o.Ranks)
	if err != nil {
		return 0, err
	}
	if err := o.CheckRanks(np); err != nil {
		return 0, err
	}
	cases := o.Cases(np)
	if err := enoughMemory(suite.Memory(cases, np), np); err != nil {
		return 0, err
	}
	if o.Shapes() {
		return shapes(o, args, np, cases)
	}
	if err := tuner.Check(np, cmdline.UsableCores()); err != nil {
		return 0, err
	}
	r := &results{np: np, cases: cases}
	if o.JSON != "-" {
		r.table = table.New(os.Stdout, o, np, cases, wide(o))
	}
	if err := r.open(o); err != nil {
		return 0, err
	}
	r.progress = progressOnTerminal()
	code, err := run(o, args, np, r)
	return r.finish(code, err)
}

// run runs the ranks, which write to r.
func run(o *suite.Options, args []string, np int, r io.Writer) (int, error) {
	job := &selfrun.Job{
		Subcommand: Subcommand, Args: args, Size: np, Settings: map[string]string{},
		Result: r, Screen: output.NewScreen(os.Stdout, os.Stderr),
	}
	if o.NoTopoCache {
		job.Settings["no-topo-cache"] = "1"
	}
	return selfrun.Run(job)
}

// progressOnTerminal returns a progress line on stderr, nil where that is no
// terminal.
func progressOnTerminal() *progress {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return startProgress(os.Stderr)
}

// finish ends the output of a job that ended with this code or error, and
// returns the code of the command.
func (r *results) finish(code int, err error) (int, error) {
	r.progress.stop()
	switch {
	case err != nil || code != 0:
	case len(r.rows) < len(r.cases):
		err = fmt.Errorf("bench: the ranks have ended after %d of %d rows", len(r.rows), len(r.cases))
	case r.table != nil:
		err = r.table.End()
	}
	err = errors.Join(err, r.close())
	switch {
	case errors.Is(err, syscall.EPIPE): // the reader of the table has seen enough
		return exitcode.Signal(syscall.SIGPIPE), nil
	case err != nil || code != 0:
		return code, err
	}
	if wrong, rows := r.wrong(); wrong > 0 {
		fmt.Fprintf(os.Stderr, "treerun: bench: %d wrong elements in %d of %d rows\n", wrong, rows, len(r.rows))
		return WrongResults, nil
	}
	return 0, nil
}

// wide tells whether the table has the columns of the plan: where nothing was
// said, unless stdout is a terminal that is too narrow.
func wide(o *suite.Options) bool {
	if o.Wide != suite.WideAuto {
		return o.Wide == suite.WideYes
	}
	columns, _, err := term.GetSize(int(os.Stdout.Fd()))
	return err != nil || columns >= table.Width
}
