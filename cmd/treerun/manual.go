package main

import (
	"embed"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// This file makes completions for a shell and a page for man from the flags of all commands.

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
	fmt.Fprintf(&b, ".TH TREERUN 1 \"\" \"treerun %s\"\n.SH NAME\ntreerun \\- %s\n", cmdline.BuildVersion(),
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

// printVersion prints the version that the go command has recorded in this executable.
func printVersion() error {
	_, err := fmt.Printf("treerun %s (%s %s/%s)\n", cmdline.BuildVersion(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
	return err
}
