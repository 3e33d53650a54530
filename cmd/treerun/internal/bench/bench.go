// Package bench is the subcommand bench of treerun: it measures collectives
// with ranks of its own, and prints what they find as nccl-tests
// does, as JSON and as a picture. It is the launcher's side: what is measured, and
// how, stands in package meter, which runs in the ranks. Only package cli below
// cmd/treerun imports it.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"golang.org/x/term"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/meter"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/place"
	"github.com/treerun/treerun/cmd/treerun/internal/planner"
)

// Subcommand is the name of bench, and of its ranks for launch.RankName.
const Subcommand = "bench"

// WrongResults is the exit code when an element was not what it should be.
const WrongResults = 1

// Rank does a rank's part, with the arguments of the launcher. A signal simply
// ends it: it is the launcher that has something to say.
func Rank(args []string) (int, error) {
	var p place.Options
	var j planner.Job
	o, err := meter.Parse(args, p.Define, j.Define)
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
	c := &command{args: args}
	o, err := meter.Parse(args, c.place.Define, c.planning.Define)
	if err != nil {
		return 0, err
	}
	if c.Options = o; o.Help {
		return 0, printHelp(o)
	}
	if err := c.findRanks(); err != nil {
		return 0, err
	}
	if err := c.settle(); err != nil {
		return 0, err
	}
	np := c.np
	cases := o.Cases(np)
	if err := enoughMemory(meter.Memory(cases, np), c.perHost); err != nil {
		return 0, err
	}
	r := &results{np: np, cases: cases}
	if o.Explain > 0 {
		r.explain = os.Stdout
	} else if o.JSON != "-" {
		r.table = newTable(os.Stdout, o, np, cases, wide(o))
	}
	if err := r.open(o); err != nil {
		return 0, err
	}
	r.progress = progressOnTerminal()
	r.show()
	code, err := c.run(r)
	if code, err = r.finish(code, err); code == 0 && err == nil {
		err = c.planning.Unserved(r.digests, r.algorithms)
	}
	return code, err
}

// command is a command line of bench, and the ranks that it is for.
type command struct {
	*meter.Options
	place    place.Options
	planning planner.Job
	settings map[string]string
	args     []string
	hosts    []launch.Host // none: this one
	gpus     gpus.Request  // none where the data are in the hosts' memory
	np       int           // aggregators not counted
	perHost  int           // of these, on the fullest host
}

// findRanks finds out how many ranks there are, and where.
func (c *command) findRanks() (err error) {
	if c.hosts, c.np, err = c.place.Hosts(c.Ranks, c.Aggregators); err != nil {
		return err
	}
	c.perHost = c.np
	if len(c.hosts) > 0 {
		c.perHost = 0
		for _, h := range c.hosts {
			workers, _ := slices.BinarySearch(h.Ranks, c.np)
			c.perHost = max(c.perHost, workers)
		}
	}
	if err := c.findGPUs(); err != nil {
		return err
	}
	return c.CheckRanks(c.np)
}

// findGPUs finds out which GPUs the ranks get, where their data are on some.
func (c *command) findGPUs() error {
	request, err := c.place.GPUs()
	c.gpus.Bind = gpus.None
	switch {
	case err != nil:
		return err
	case c.Device == meter.CUDA && request.Bind == gpus.None:
		return cmdline.Usagef("bench: --device cuda needs GPUs, and --gpu-bind none gives ranks none")
	case c.Device == meter.CUDA:
		c.gpus = request
	case request.List != "" || request.PerGPU != 0:
		return cmdline.Usagef("bench: --gpus and --ranks-per-gpu say which GPUs' memory the data are in: they go with " +
			"--device cuda")
	}
	return nil
}

// run runs the ranks, which write to r.
func (c *command) run(r io.Writer) (int, error) {
	reach, err := c.place.Remote()
	if err != nil {
		return 0, err
	}
	return launch.RunSelf(Subcommand, c.args, &launch.Job{
		Size: c.np + c.Aggregators, Hosts: c.hosts, Remote: reach, GPUs: c.gpus, Settings: c.settings,
		Screen: output.NewScreen(os.Stdout, os.Stderr),
	}, r)
}

// settle finds out what the settings of the job are.
func (c *command) settle() error {
	c.settings = make(map[string]string)
	if c.NoTopoCache {
		c.settings["no-topo-cache"] = "1"
	}
	if c.Verbose {
		c.settings["verbose"] = "1"
	}
	c.place.Settings(c.settings)
	return c.planning.Settings(c.settings, c.np+c.Aggregators)
}

// finish ends the output of a job that ended with this code or error, and
// returns the code of the command.
func (r *results) finish(code int, err error) (int, error) {
	r.progress.show("")
	switch {
	case err != nil || code != 0:
	case r.done() < len(r.cases):
		err = fmt.Errorf("bench: the ranks have ended after %d of %d rows", r.done(), len(r.cases))
	case r.table != nil:
		err = r.table.End()
	}
	err = errors.Join(err, r.close())
	switch {
	case errors.Is(err, syscall.EPIPE): // the reader of the table has seen enough
		return cmdline.SignalCode(syscall.SIGPIPE), nil
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
func wide(o *meter.Options) bool {
	if o.Wide != nil {
		return *o.Wide
	}
	columns, _, err := term.GetSize(int(os.Stdout.Fd()))
	return err != nil || columns >= tableWidth
}
