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

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
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
	where := fmt.Sprintf("%d on %d usable cores", j.Size, job.UsableCores())
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
		programs = fmt.Sprintf("flags        %s, from %s, and those of the command line\n%s", o.variable, flagsVariable,
			programs)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `host         %s
ranks        %s
%sfolder       %s
environment  treerun's own, and %s
`, here, where, programs, j.Dir, strings.Join(host.RankVariables(), " "))
	for _, h := range j.Hosts {
		what := "ranks " + topo.RankList(h.Ranks)
		if len(h.Ranks) == 0 {
			what = "no rank until another host is lost"
		}
		fmt.Fprintf(&b, "on           %s: %s\n", h.Name, what)
	}
	for rank, s := range j.Cores.Slots {
		fmt.Fprintf(&b, "rank %-7d slot=%s (%s)\n", rank, s.List, s.Where)
	}
	if err := describePlaces(&b, j); err != nil {
		return err
	}
	if j.OutputDir != "" {
		fmt.Fprintf(&b, "output       also to %s/rank.N/\n", j.OutputDir)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// describePlaces writes the GPUs that the ranks of this host would get, and with --report-bindings the cores; those of
// other hosts are only known there. It returns the error of a job that asks for more of them than there are.
func describePlaces(b *strings.Builder, j *launch.Job) error {
	ranks := numbers.Below(j.Size)
	if len(j.Hosts) > 0 {
		i := slices.IndexFunc(j.Hosts, func(h launch.JobHost) bool { return h.Local })
		if i < 0 {
			return nil
		}
		ranks = j.Hosts[i].Ranks
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
		text, where := p.Describe(local)
		if j.Report {
			text = strings.TrimPrefix(text+", "+where, ", ")
		}
		if text != "" {
			fmt.Fprintf(b, "rank %-7d %s\n", rank, text)
		}
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
