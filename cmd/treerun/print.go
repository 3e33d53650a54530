package main

import (
	"embed"
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

// printVersion prints the version that the go command has recorded in this executable.
func printVersion() error {
	_, err := fmt.Printf("treerun %s (%s %s/%s)\n", wire.BuildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
	if err := describeGPUs(&b, j); err != nil {
		return err
	}
	if j.OutputDir != "" {
		fmt.Fprintf(&b, "output       also to %s/rank.N/\n", j.OutputDir)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// describeGPUs writes the GPUs that the ranks of this host would get; those of other
// hosts are only known there.
func describeGPUs(b *strings.Builder, j *launch.Job) error {
	ranks := numbers.Below(j.Size)
	if len(j.Hosts) > 0 {
		i := slices.IndexFunc(j.Hosts, func(h launch.JobHost) bool { return h.Local })
		if i < 0 {
			return nil
		}
		ranks = j.Hosts[i].Ranks
	}
	plan, err := gpus.Assign(j.GPUs, gpus.Share{Ranks: len(ranks), Total: len(ranks)}, j.Env)
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

// quote formats an argument so that its beginning and end are visible.
func quote(arg string) string {
	if arg == "" || strings.ContainsFunc(arg,
		func(r rune) bool { return r <= ' ' || strings.ContainsRune(`"'\$*?[]{}()<>|&;#~`+"`", r) }) {
		return strconv.Quote(arg)
	}
	return arg
}

// The rest of this file makes completions for a shell and a page for man from the flags of all commands.

// commandsWithFlags are the commands with flags, in the order of the manual; "" is the one without a name.
var commandsWithFlags = []string{"", "topo", "plan", "sim", "bench", "check", "status", "resize"}

// shells has the completion script of each shell, and the help text about them.
//
//go:embed help/completion.*
var shells embed.FS

// completeCommand is the command that the scripts call.
const completeCommand = "complete:words"

// runCompletion is the command completion: it prints a script for a shell.
func runCompletion(args []string) (int, error) {
	text, err := shells.ReadFile("help/completion." + strings.TrimLeft(strings.Join(args, " "), "-"))
	if err != nil {
		return 0, cmdline.Usagef("completion: want bash, zsh or fish")
	}
	_, err = os.Stdout.Write(text)
	return 0, err
}

// runComplete prints the words that may replace the last of some words after treerun, one per line; none where a file
// may stand.
func runComplete(args []string) (int, error) {
	args = append([]string{""}, args...)
	name, before, last := "", args[1:max(1, len(args)-1)], args[len(args)-1]
	if len(before) > 0 && commands[before[0]] != nil {
		name, before = before[0], before[1:]
	}
	var words []string
	switch first := len(before) == 0 && !strings.HasPrefix(last, "-"); {
	case first && name == "completion":
		words = []string{"bash", "zsh", "fish"}
	case first && (name == "" || name == "help"):
		words = append(listedCommands(), "help")
	case slices.Contains(commandsWithFlags, name):
		words = cmdline.Complete(flagsOf(name), before, last)
	}
	for _, word := range words {
		if strings.HasPrefix(word, last) {
			fmt.Println(word)
		}
	}
	return 0, nil
}

// runMan is the command man: it prints a page for man, with all commands.
func runMan([]string) (int, error) {
	roff := strings.NewReplacer("\\", "\\e", "-", "\\-", "\n.", "\n\\&.", "\n'", "\n\\&'").Replace
	head, tail, _ := strings.Cut(helpText, "flags:\n%s")
	var b strings.Builder
	fmt.Fprintf(&b, ".TH TREERUN 1 \"\" \"treerun %s\"\n.SH NAME\ntreerun \\- %s\n", wire.BuildVersion(),
		"runs copies of a program as one job")
	fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s.fi\n", roff(head))
	for _, name := range commandsWithFlags {
		fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(strings.TrimSpace("treerun "+name)))
		for line := range strings.Lines(flagsOf(name).FlagUsages()) {
			flag, text, _ := strings.Cut(strings.TrimSpace(line), "  ")
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(flag), strings.TrimPrefix(roff("\n"+strings.TrimSpace(text)), "\n"))
		}
	}
	fmt.Fprintf(&b, ".SH NOTES\n.nf\n%s.fi\n", roff(tail))
	_, err := fmt.Print(b.String())
	return 0, err
}
