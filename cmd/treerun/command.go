// Treerun starts the ranks of a job and runs them as one program; treerun --help
// describes its use. This package parses arguments, reports their errors, and passes
// a job to package launch. It starts no process itself.
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/planner"
)

// commands maps a first argument to its function, which gets the arguments after it.
// A PROGRAM of the same name is given as ./NAME.
var commands = map[string]func(args []string) (int, error){
	"version": func([]string) (int, error) { return 0, printVersion() },
	"topo":    runTopo,
	"plan":    func(args []string) (int, error) { return 0, planner.Plan(os.Stdout, args) },
	"sim":     func(args []string) (int, error) { return 0, planner.Sim(os.Stdout, args) },
}

func init() { // those that read commands
	commands["help"], commands["completion"], commands["man"] = runHelp, runCompletion, runMan
	commands[completeCommand] = runComplete
}

// flagsOf returns the flags of one of the commands in flagged.
func flagsOf(name string) *pflag.FlagSet {
	if name == "" {
		return cmdline.FlagsOf(runJob)
	}
	return cmdline.FlagsOf(commands[name])
}

// runHelp is the command help: of treerun, or of one of its commands.
func runHelp(args []string) (int, error) {
	if len(args) == 0 {
		return 0, printHelp()
	}
	if c, ok := commands[args[0]]; ok && len(args) == 1 && slices.Contains(listedCommands(), args[0]) {
		return c([]string{"--help"})
	}
	return 0, cmdline.Usagef("help %s: there is no such command%s", strings.Join(args, " "), commandHint(args[0]))
}

// unlisted are commands that no list names.
var unlisted = []string{"help"}

// listedCommands returns the documented commands, in order.
func listedCommands() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(commands)), func(name string) bool {
		return strings.Contains(name, ":") || slices.Contains(unlisted, name)
	})
}

// commandHint returns a hint with the command that is probably meant by a word, or with all.
func commandHint(word string) string {
	if near := cmdline.Nearest(word, append(listedCommands(), "help")); near != "" {
		return fmt.Sprintf(" (did you mean treerun %s?)", near)
	}
	return fmt.Sprintf(" (commands: %s)", strings.Join(listedCommands(), ", "))
}

// stdoutClosed is set where this process was started without a standard output. Only a build with cgo detects it.
var stdoutClosed bool

func main() { os.Exit(run(os.Args[1:])) }

// run runs treerun with the arguments after its name and returns the exit
// code. All of its output has then been printed.
func run(args []string) int {
	command, help := runJob, "usage: treerun [-np N] [flags] PROGRAM [ARGS...]; see treerun --help"
	if len(args) > 0 {
		if c, ok := commands[args[0]]; ok {
			help = fmt.Sprintf("see treerun %s --help", args[0])
			command, args = c, args[1:]
		}
	}
	code, err := 0, error(nil)
	if stdoutClosed {
		err = errors.New("stdout is closed (hint: > /dev/null discards the output)")
	} else if code, err = command(args); err == nil {
		return code
	}
	fmt.Fprintf(os.Stderr, "%s %v\n", output.Paint(os.Stderr, output.Red, "treerun:"), err)
	code = cmdline.ExitCode(err)
	if code == cmdline.ExitUsage {
		fmt.Fprintln(os.Stderr, help)
	}
	return code
}

// runTopo is the command topo.
func runTopo(args []string) (int, error) {
	code, err := planner.Topo(os.Stdout, args, measureTopo)
	if errors.Is(err, syscall.EPIPE) { // the reader has closed stdout; measuring has disabled the signal
		return cmdline.SignalCode(syscall.SIGPIPE), nil
	}
	return code, err
}
