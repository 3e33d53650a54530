package cli

import (
	_ "embed"
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
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// helpText has room for the list of flags.
//
//go:embed help/treerun.txt
var helpText string

func printHelp() error {
	_, err := fmt.Printf(helpText, cmdline.Usages(newOptions().flags))
	return err
}

// printVersion prints what the go command has noted in this executable.
func printVersion() error {
	_, err := fmt.Printf("treerun %s (%s %s/%s)\n", wire.BuildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// printDryRun prints what would be run. from says where hosts are from that the command line does not name.
func printDryRun(w io.Writer, j *launch.Job, prog *program, from string) error {
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
		where = fmt.Sprintf("%d on %s", j.Size, numbers.Count(len(j.Hosts), "host"))
	}
	if from != "" {
		where += "; " + from
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
