//go:build linux

package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

// helpText has a verb for the list of flags.
//
//go:embed help/treerun.txt
var helpText string

func printHelp() error {
	_, err := fmt.Printf(helpText, cmdline.Usages(newOptions().flags))
	return err
}

// printDryRun prints the job of some options without running it.
func printDryRun(w io.Writer, j *launch.Job, prog *program, o *options) error {
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
	where := fmt.Sprintf("%d on %s", j.Size, numbers.Count(job.UsableCores(), "usable core"))
	if len(j.Hosts) > 0 {
		where = fmt.Sprintf("%d on %s", j.Size, numbers.Count(len(j.Hosts), "host"))
	}
	if from := o.place.Source(); from != "" {
		where += "; " + from
	}
	programs := fmt.Sprintf("program      %s\ncommand      %s\n", path, strings.Join(command, " "))
	if len(o.parts) > 0 {
		programs = describeParts(o.parts)
	}
	if o.variable != "" {
		programs = fmt.Sprintf("flags        %s, from %s, and those of the command line\n%s", o.variable,
			cmdline.FlagsVariable, programs)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `host         %s
ranks        %s
%sfolder       %s
environment  treerun's own, and %s
`, here, where, programs, j.Dir, strings.Join(host.RankVariables(), " "))
	if given := o.given(); given != nil {
		fmt.Fprintf(&b, "options      %s\n", strings.Join(given, " "))
	}
	if slices.ContainsFunc(j.Hosts, func(h launch.JobHost) bool { return !h.Local }) {
		agent := append([]string{"ssh"}, j.Remote.SSHArgs...)
		if j.Remote.Command != nil {
			agent = j.Remote.Command
		}
		fmt.Fprintf(&b, "agents       started by %s\n", strings.Join(agent, " "))
	}
	for _, h := range j.Hosts {
		what := inspect.RanksText(h.Ranks)
		if len(h.Ranks) == 0 {
			what = "no rank until another host is lost"
		}
		fmt.Fprintf(&b, "on           %s: %s\n", h.Name, what)
	}
	if err := describeRanks(&b, j, prog); err != nil {
		return err
	}
	if j.OutputDir != "" {
		fmt.Fprintf(&b, "output       also to %s/rank.N/\n", j.OutputDir)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// given returns the flags that have been set, by the command line or by variables, other than those that have lines of
// their own in a dry run.
func (o *options) given() (list []string) {
	o.flags.VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "np", "host", "hostfile", "launch-agent", "ssh-args", "wdir", "output-dir", "debug", "mem-per-rank", "dry-run",
			"verbose":
			return
		}
		values := []string{f.Value.String()}
		if s, ok := f.Value.(pflag.SliceValue); ok {
			values = s.GetSlice()
		}
		for _, value := range values {
			switch {
			case !f.Changed || value == "": // or taken back, as --timeout by --debug
			case value == f.NoOptDefVal:
				list = append(list, "--"+f.Name)
			default:
				list = append(list, "--"+f.Name+"="+quote(value))
			}
		}
	})
	return list
}

// describeRanks writes what the user has set for ranks. GPUs and cores of other hosts are only known there. It returns
// the error of a job that asks for more than there is here.
func describeRanks(b *strings.Builder, j *launch.Job, prog *program) error {
	local := numbers.Below(j.Size)
	if len(j.Hosts) > 0 {
		local = nil
		if i := slices.IndexFunc(j.Hosts, func(h launch.JobHost) bool { return h.Local }); i >= 0 {
			local = j.Hosts[i].Ranks
		}
	}
	if each := int64(j.Memory); each > 0 {
		fmt.Fprintf(b, "memory       %s at most for each rank, %s for the job\n", numbers.Bytes(each),
			numbers.Bytes(each*int64(j.Size)))
	}
	if j.Debug != nil {
		fmt.Fprintf(b, "debugger     %s, without limits of time\n", inspect.RanksText(j.Debug))
		if slices.ContainsFunc(j.Debug, func(rank int) bool { return slices.Contains(local, rank) }) {
			path := prog.Path
			if len(j.Parts) > 0 {
				path = "" // there are several
			}
			if _, err := host.FindDelve(path); err != nil {
				return err
			}
		}
	}
	where := make([]string, j.Size)
	for rank, s := range j.Cores.Slots {
		where[rank] = fmt.Sprintf("slot=%s (%s)", s.List, s.Where)
	}
	if err := describePlaces(b, j, local, where); err != nil {
		return err
	}
	for rank, text := range where {
		if text != "" {
			fmt.Fprintf(b, "rank %-7d %s\n", rank, text)
		}
	}
	return nil
}

// describePlaces adds to where the GPUs of some ranks of this host, and their cores if the user has set them or wants a
// report of them.
func describePlaces(b *strings.Builder, j *launch.Job, ranks []int, where []string) error {
	if ranks == nil {
		return nil
	}
	run := &wire.Run{Parts: j.Parts, Cores: j.Cores, GPUs: j.GPUs}
	run.File.Hosts = slices.Repeat([]int{1}, j.Size)
	for _, rank := range ranks {
		run.File.Hosts[rank] = 0
	}
	p, err := host.PlaceRanks(run, 0, ranks, job.UsableCores(), j.Env)
	if err != nil {
		return err
	}
	for _, text := range p.Notices {
		fmt.Fprintf(b, "gpus         %s\n", text)
	}
	for local, rank := range ranks {
		gpu, own := p.Describe(local)
		if request := run.ShareOf(rank).CoresOf(j.Cores); !j.Report && !request.Binds() {
			own = ""
		}
		known := slices.DeleteFunc([]string{where[rank], gpu, own}, func(text string) bool { return text == "" })
		where[rank] = strings.Join(known, ", ")
	}
	return nil
}

// quote formats an argument so that its beginning and end are visible.
func quote(arg string) string {
	if arg == "" || strings.ContainsFunc(arg,
		func(r rune) bool { return r <= ' ' || strings.ContainsRune(`"'\$*?[]{}()<>|&;#~`+"`", r) }) {
		return strconv.Quote(arg)
	}
	return arg
}

// commandsWithFlags are the commands with flags, in the order of the manual; "" is the one without a name.
var commandsWithFlags = []string{"", "topo", "plan", "sim", "bench", "check", "status", "resize"}
