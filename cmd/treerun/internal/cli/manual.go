package cli

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// This file makes what a shell and man want to know from the flags of all commands.

// flagged are the commands with flags, in the order of the manual; "" is the one without a name.
var flagged = []string{"", "topo", "plan", "sim", "bench", "check"}

// shells are scripts that ask completing for words, by the name of the shell.
var shells = map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}

// What each shell has to be told.
var (
	//go:embed help/completion.bash
	bashScript string
	//go:embed help/completion.zsh
	zshScript string
	//go:embed help/completion.fish
	fishScript string
)

// completing is the command that the scripts call.
const completing = "complete:words"

func init() {
	commands["completion"], commands["man"], commands[completing] = runCompletion, runMan, runCompleting
}

const completionHelp = `treerun completion bash|zsh|fish prints a script that completes commands, flags and their words:

  source <(treerun completion bash)     # in ~/.bashrc
  source <(treerun completion zsh)      # in ~/.zshrc, after compinit
  treerun completion fish | source      # in ~/.config/fish/config.fish
`

// runCompletion is the command completion: it prints a script for a shell.
func runCompletion(args []string) (int, error) {
	text := completionHelp
	if !isHelp(args) {
		if len(args) != 1 || shells[args[0]] == "" {
			return 0, cmdline.Usagef("completion: want bash, zsh or fish")
		}
		text = shells[args[0]]
	}
	_, err := fmt.Print(text)
	return 0, err
}

func isHelp(args []string) bool { return len(args) == 1 && (args[0] == "--help" || args[0] == "-h") }

// runCompleting prints what may stand for the last of some words after treerun, one a line; nothing where that may be a
// file. Bash parts --flag=value into three words, and wants the last one alone.
func runCompleting(args []string) (int, error) {
	line := strings.ReplaceAll(strings.Join(args, "\n")+"\n", "\n=\n", "=")
	before := strings.Split(strings.TrimSuffix(line, "\n"), "\n")
	last := before[len(before)-1]
	before = before[:len(before)-1]
	parted := ""
	if len(args) > 1 && (args[len(args)-1] == "=" || args[len(args)-2] == "=") {
		parted = last[:strings.Index(last, "=")+1]
	}
	name := ""
	if len(before) > 0 && commands[before[0]] != nil {
		name, before = before[0], before[1:]
	}
	var words []string
	switch {
	case name == "" && len(before) == 0 && !strings.HasPrefix(last, "-"):
		words = append(listedCommands(), "help")
	case slices.Contains(flagged, name):
		words = cmdline.Complete(flagsOf(name), before, last)
	case name == "completion":
		words = []string{"bash", "zsh", "fish"}
	case name == "help":
		words = listedCommands()
	}
	for _, word := range words {
		if strings.HasPrefix(word, last) {
			fmt.Println(strings.TrimPrefix(word, parted))
		}
	}
	return 0, nil
}

// runMan is the command man: it prints a page for man.
func runMan(args []string) (int, error) {
	if isHelp(args) {
		_, err := fmt.Print("treerun man prints the manual page: treerun man > treerun.1; man -l treerun.1\n")
		return 0, err
	}
	if len(args) > 0 {
		return 0, cmdline.Usagef("man: unexpected argument %q", args[0])
	}
	roff := strings.NewReplacer("\\", "\\e", "-", "\\-", "\n.", "\n\\&.", "\n'", "\n\\&'").Replace
	head, tail, _ := strings.Cut(helpText, "flags:\n%s")
	var b strings.Builder
	fmt.Fprintf(&b, ".TH TREERUN 1 \"\" \"treerun %s\"\n.SH NAME\ntreerun \\- %s\n", wire.BuildVersion(),
		"runs copies of a program as one job")
	fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s.fi\n", roff(head))
	for _, name := range flagged {
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
