//go:build linux

// Package bench is the subcommand bench of treerun: it measures collectives with ranks of its own, checks the results,
// and prints them as nccl-tests does, as JSON and as a picture. The launcher and the ranks make the same list of cases
// (Case) from the same arguments. They follow from the flags, and from each collective's definition in nccl-tests and
// its memory traffic (Collective). Rank is the ranks' side, which measures on a communicator; Main is the launcher's,
// which gets a Record per line. Only cmd/treerun imports it.
//
// # Time
//
// The method is that of MPI benchmarks, so that times compare: every rank times each iteration from its own exit of a
// barrier on, the time of an iteration is that of its slowest rank, and the time of a row is the median over its
// iterations. With Stream, iterations follow each other without a barrier, and the time is their mean on the slowest
// rank.
//
// # Limit
//
// The limit of a row is the least time that any implementation on this machine could need: the bytes that a rank must
// read and write on the average (see Collective), over the rate at which all ranks together copy memory of that
// footprint, which is measured next to the row; plus, without a root, the latency of the quickest link: the others wait
// for the data of the last rank to come. (With a root, a rank that comes late finds everything ready.) Where ranks are
// on several hosts it is at least the size of the message over the maximum rate of the measured network
// (collective.Comm.NetworkLimit). Reads count as much as writes. It is an estimate: calls whose footprint is smaller
// than that of the copy can be above it at the edge of a cache.
package bench

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/place"
	"github.com/treerun/treerun/cmd/treerun/internal/planner"
	"github.com/treerun/treerun/internal/numbers"
)

// helpText is the help, with a place for the flags.
//
//go:embed help.txt
var helpText string

// Subcommand is the name of bench, and of its ranks for launch.RankName.
const Subcommand = "bench"

// wrongResults is the exit code when an element was wrong.
const wrongResults = 1

// Rank runs a rank's part, with the arguments of the launcher. A signal simply ends it: the report is up to the
// launcher.
func Rank(args []string) (int, error) {
	var p place.Options
	var j planner.JobFlags
	o, err := parse(args, p.Define, j.Define)
	if err != nil {
		return 0, err
	}
	if err := runRank(context.Background(), o, os.Stdout); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	return 0, nil
}

// Main runs the subcommand with the arguments after its name, and returns the
// exit code. Call it once per process.
func Main(args []string) (int, error) {
	var where place.Options
	var planning planner.JobFlags
	o, err := parse(args, where.Define, planning.Define)
	if err != nil {
		return 0, err
	}
	if o.Help {
		_, err := fmt.Printf(helpText, cmdline.Usages(o.Flags))
		return 0, err
	}
	j, np, err := newJob(o, &where)
	if err == nil {
		err = planning.Settings(j.Settings, j.Size)
	}
	if err != nil {
		return 0, err
	}
	cases := o.cases(np)
	if len(j.Hosts) == 0 { // the memory of other hosts is not known here
		if err := checkMemory(memoryOf(cases, np), np); err != nil {
			return 0, err
		}
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
	r.status, r.start = j.Screen.Err, time.Now()
	r.showStatus()
	code, err := launch.RunSelf(Subcommand, args, j, r)
	if code, err = r.finish(code, err); code == 0 && err == nil {
		err = planning.Unserved(r.digests, r.algorithms)
	}
	return code, err
}

// newJob returns the job that measures, and the number of its ranks that do not only aggregate. Its ranks get GPUs
// where their data are on some.
func newJob(o *Options, where *place.Options) (j *launch.Job, np int, err error) {
	j = &launch.Job{Settings: make(map[string]string), Screen: output.NewScreen(os.Stdout, os.Stderr)}
	if j.Hosts, np, err = where.Hosts(o.Ranks, o.Aggregators); err == nil {
		err = where.Fill(j)
	}
	if err != nil {
		return nil, 0, err
	}
	if from := where.Source(); from != "" && o.Verbose {
		j.Screen.Err.Printf("treerun: %s", from)
	}
	j.Size = np + o.Aggregators
	switch {
	case o.Device == CUDA && j.GPUs.Bind == gpus.None:
		return nil, 0, cmdline.Usagef("bench: --device cuda needs GPUs, and --gpu-bind none gives ranks none")
	case o.Device == CUDA:
	case j.GPUs.List != "" || j.GPUs.PerGPU != 0:
		return nil, 0, cmdline.Usagef("bench: --gpus and --ranks-per-gpu choose the GPUs that hold the data: they need " +
			"--device cuda")
	default:
		j.GPUs = gpus.Request{Bind: gpus.None}
	}
	return j, np, o.checkRanks(np)
}

// finish ends the output of a job that ended with this code or error, and returns the exit code of the command.
func (r *results) finish(code int, err error) (int, error) {
	r.status.Status("")
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
		return cmdline.SignalCode(syscall.SIGPIPE), nil
	case err != nil || code != 0:
		return code, err
	}
	if wrong, rows := countWrong(r.rows); wrong > 0 {
		fmt.Fprintf(os.Stderr, "treerun: bench: %s in %d of %d rows\n",
			numbers.Count(int(wrong), "wrong element"), rows, len(r.rows))
		return wrongResults, nil
	}
	return 0, nil
}

// wide reports whether the table has the columns of the plan: by default it has, unless stdout is a terminal that is
// too narrow.
func wide(o *Options) bool {
	if o.Wide != nil {
		return *o.Wide
	}
	columns, _, err := term.GetSize(int(os.Stdout.Fd()))
	return err != nil || columns >= tableWidth
}

// checkMemory returns an error for a job because of which the kernel would end a rank.
func checkMemory(need int64, np int) error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil // then the ranks notice
	}
	if have := available(text); have > 0 && need > have {
		const gib = 1 << 30
		return fmt.Errorf("bench: the buffers of %s take %.1f GiB, and %.1f GiB of memory are free (give a smaller "+
			"-e or -np)",
			numbers.Count(np, "rank"), float64(need)/gib, float64(have)/gib)
	}
	return nil
}

// available returns the available memory of /proc/meminfo in bytes, 0 where it is missing.
func available(meminfo []byte) int64 {
	var kib int64
	_, after, _ := bytes.Cut(meminfo, []byte("MemAvailable:"))
	_, _ = fmt.Sscanf(string(after), "%d kB", &kib)
	return kib << 10
}
