//go:build linux

package agent

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// Command is the argument of treerun by which it becomes an agent: see Main.
const Command = "agent"

// lines is a second argument of an agent: it writes lines.
const lines = "lines"

// hostMark stands for the host's name in a launch agent's command.
const hostMark = "{host}"

// runScript runs treerun where it is, or else from PATH.
const runScript = `x=$0; test -x "$x" || x=treerun; exec "$x" ` + Command

// pushScript runs a treerun that it reads from stdin, $1 bytes. It removes the name of the file
// before the first byte arrives, so that no file can be left; $2 is part of the name of
// the folder, so that the trap that removes the folder is set before it exists. If a launch agent
// joins the words of its command to a line for a shell, that shell parses the script, and sh gets
// only its first word, test, which fails.
const pushScript = `test "$#" = 2 || { echo "` + joinedCommand + `" >&2; exit 125; }; ` +
	`umask 077; d=${TMPDIR:-/tmp}/treerun-$2; trap 'rm -rf "$d"' EXIT; trap 'exit 125' HUP INT TERM; ` +
	`mkdir "$d" || exit 125; exec 3>"$d/x" 4<"$d/x"; rm -rf "$d"; trap - EXIT HUP INT TERM; ` +
	`head -c "$1" >&3; exec 3>&-; chmod 700 /proc/self/fd/4 && exec /proc/self/fd/4 ` + Command

// joinedCommand is the message of pushScript under a launch agent with which it cannot run.
const joinedCommand = "the launch agent joins the words of its command, which a shell then splits again; " +
	"--push needs one that runs them as they are (ssh is used so without --launch-agent)"

// command returns the command line that starts treerun on a host.
func (t *Tree) command(name string) ([]string, error) {
	start := &t.cfg.Join.Start
	// No shell changes these words: a launch agent may pass them to one, as ssh does.
	run, script := []string{start.Treerun, Command}, pushScript
	if start.Lines {
		run, script = append(run, lines), script+" "+lines
	}
	if start.Push {
		info, err := os.Stat(wire.Self)
		if err != nil {
			return nil, fmt.Errorf("send treerun: %w", err)
		}
		run = []string{"sh", "-c", script, "treerun", strconv.FormatInt(info.Size(), 10), rand.Text()}
	}
	if len(start.Command) == 0 {
		if !start.Push {
			run = []string{"sh", "-c", runScript, start.Treerun}
		}
		return sshCommand(start.SSHArgs, name, run), nil
	}
	var args []string
	for _, word := range start.Command {
		args = append(args, strings.ReplaceAll(word, hostMark, name))
	}
	return append(args, run...), nil
}

// sshCommand returns the command line of ssh. The user's options take precedence
// over ours where ssh allows it: of an option given twice ssh uses the first.
func sshCommand(userArgs []string, name string, run []string) []string {
	args := append([]string{"ssh"}, userArgs...)
	args = append(args, "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "--", name)
	var words []string
	for _, word := range run { // a shell of any kind reads it on the other host
		words = append(words, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	return append(args, strings.Join(words, " "))
}

// sendSelf writes this executable.
func sendSelf(w io.Writer) error {
	f, err := os.Open(wire.Self)
	if err != nil {
		return fmt.Errorf("send treerun: %w", err)
	}
	defer f.Close()
	_, _ = io.Copy(w, f) // an error shows in reading the answer: the connection has ended
	return nil
}
