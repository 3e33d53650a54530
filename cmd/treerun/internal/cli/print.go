package cli

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/topo"
)

// helpText has room for the list of flags.
const helpText = `treerun starts N copies of a program, the ranks, and runs them as one job.

usage:
  treerun [-np N] [-H HOST:N,...] [flags] PROGRAM [ARGS...]
  treerun topo [-np N | -H HOST:N,... | --graph FILE|MACHINE] [flags]
  treerun plan | sim --graph FILE|MACHINE [flags]
  treerun bench [-np N] [--collective NAME,...] [flags]
  treerun check
  treerun help | version

topo measures the links of this host, or the network between hosts, or shows a
graph of links; plan makes trees on a graph and proves how good they are; sim
predicts times; bench measures them; check looks at whether this host can run jobs,
and its GPUs. Each has a --help of its own.

PROGRAM is an executable, found as a shell finds it, or a folder with a Go main
package, which is built once and then run. A folder or a program in this folder
needs a slash: ./train. Flags after PROGRAM are the program's own.

flags:
%s
Ranks learn who they are through package rank, or from RANK, WORLD_SIZE,
LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Rank 0 reads treerun's
stdin. A line of a rank is shown as one line; one that is not finished within
50 ms, or gets longer than 64 KiB, is shown in parts, each but the last ending
in " \". On a terminal, text after a carriage return overwrites the line.

INT, TERM and HUP stop all ranks with TERM, and with KILL after the shutdown
timeout or a second INT. USR1, USR2, WINCH, QUIT, TSTP and CONT go to all ranks.
When a rank fails, the others have 500 ms to say what they know; then they are
stopped, and the last lines of treerun tell the cause. What ranks leave running
in their process groups is ended with the job.

Other hosts are reached with ssh, which must not ask questions. The same treerun
and PROGRAM must be there, at the same path or in PATH, unless --push sends them;
ranks run in a folder of the same path, with the environment of their host.

exit codes:
  0      all ranks exited with 0
  N      code of the first rank that failed; 128+n if signal n killed it
  128+n  treerun was stopped by signal n
  124    --timeout is over
  125    treerun itself failed, a host was lost, or PROGRAM does not build
  126    PROGRAM cannot be executed
  127    PROGRAM was not found
  64     wrong usage

examples:
  treerun -np 8 ./examples/train --epochs 5
  treerun -np 4 -x DEBUG=1 --timeout 10m --output-dir logs ./train
  treerun -np 2 python3 train.py
  treerun -H node1:8,node2:8 --push ./train
  treerun bench -np 2 --collective all --plot bench.svg
`

func printHelp() error {
	flags := newOptions().flags.FlagUsages()
	_, err := fmt.Printf(helpText, flags)
	return err
}

// printVersion prints what the go command has noted in this executable.
func printVersion() error {
	_, err := fmt.Printf("treerun %s (%s %s/%s)\n", wire.BuildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// printDryRun prints what would be run.
func printDryRun(w io.Writer, j *launch.Job, prog *program) error {
	here, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find the name of this host: %w", err)
	}
	path := prog.Path
	if prog.Folder != "" {
		path = prog.Folder + " (Go source, built first)"
	}
	var command []string
	for _, a := range j.Args {
		command = append(command, quote(a))
	}
	where := fmt.Sprintf("%d on %d usable cores", j.Size, cmdline.UsableCores())
	if len(j.Hosts) > 0 {
		where = fmt.Sprintf("%d on %d hosts", j.Size, len(j.Hosts))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `host         %s
ranks        %s
program      %s
command      %s
folder       %s
environment  treerun's own, and %s
`, here, where, path, strings.Join(command, " "), j.Dir, strings.Join(host.Names(), " "))
	for _, h := range j.Hosts {
		fmt.Fprintf(&b, "on           %s: ranks %s\n", h.Name, topo.RankList(h.Ranks))
	}
	if err := describeGPUs(&b, j); err != nil {
		return err
	}
	if j.OutputDir != "" {
		fmt.Fprintf(&b, "output       also to %s/rank.N/\n", j.OutputDir)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// describeGPUs writes which GPUs the ranks of this host would get; those of others
// find out there.
func describeGPUs(b *strings.Builder, j *launch.Job) error {
	var ranks []int
	for r := range j.Size {
		ranks = append(ranks, r)
	}
	if len(j.Hosts) > 0 {
		i := slices.IndexFunc(j.Hosts, func(h launch.Host) bool { return h.Local })
		if i < 0 {
			return nil
		}
		ranks = j.Hosts[i].Ranks
	}
	plan, err := gpus.Assign(j.GPUs, gpus.Share{Ranks: len(ranks), Among: len(ranks)}, j.Env)
	if err != nil {
		return err
	}
	if plan.Notice != "" {
		fmt.Fprintf(b, "gpus         %s\n", plan.Notice)
	}
	for i := range plan.GPUs {
		fmt.Fprintf(b, "rank %-7d %s\n", ranks[i], &plan.GPUs[i])
	}
	return nil
}

// quote writes an argument so that a reader sees where it begins and ends.
func quote(arg string) string {
	if arg == "" || strings.ContainsFunc(arg,
		func(r rune) bool { return r <= ' ' || strings.ContainsRune(`"'\$*?[]{}()<>|&;#~`+"`", r) }) {
		return strconv.Quote(arg)
	}
	return arg
}
