//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// exitGrace is how long the end of a connection waits for that of the process,
// whose exit code explains more.
const exitGrace = 300 * time.Millisecond

// endText describes the reason for the end of the connection. err is the reader's error.
func (c *agentConn) endText(err error) string {
	prefix := fmt.Sprintf("start treerun on host %s: ", c.name)
	if isClosed(c.hello) {
		prefix = fmt.Sprintf("the connection to treerun on host %s has ended: ", c.name)
	}
	reason, code := c.reason(err)
	text := c.stderrTail()
	if text != "" {
		reason += ": " + text
	}
	return prefix + reason + c.hint(code, text)
}

// reason returns the reason for the end of the connection, and the exit code of the process, 0
// where that is not the reason. The process has ended then, or is killed.
func (c *agentConn) reason(err error) (string, int) {
	if silent := context.Cause(c.ctx); errors.As(silent, new(errAbandoned)) {
		err = silent
	}
	if errors.As(err, new(errAbandoned)) || errors.Is(err, wire.ErrProtocol) || errors.Is(err, wire.ErrNoHello) {
		c.kill()
		return err.Error(), 0
	}
	select {
	case <-c.exited:
	case <-time.After(exitGrace):
		c.kill()
		if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
			return err.Error(), 0
		}
		return "it has closed its output", 0
	}
	select {
	case <-c.stderrDone:
	case <-time.After(exitGrace):
	}
	program := "ssh" // that starts treerun on that host
	if command := c.tree.cfg.Join.Start.Command; len(command) > 0 {
		program = filepath.Base(command[0])
	}
	if s := c.status; s.Signaled() {
		return fmt.Sprintf("%s was killed by %s", program, unix.SignalName(s.Signal())), 0
	} else if code := s.ExitStatus(); code != 0 || !isClosed(c.hello) {
		return fmt.Sprintf("%s exited with code %d", program, code), code
	}
	return "treerun there has ended before its ranks", 0
}

// hint returns a remedy for a host on which treerun could not be started, and on which the
// process has written text.
func (c *agentConn) hint(code int, text string) string {
	start := &c.tree.cfg.Join.Start
	ssh := len(start.Command) == 0
	where := "at " + start.Treerun
	if ssh {
		where += " or in PATH"
	} else if strings.ContainsAny(start.Treerun, shellChars) {
		where += ", and the launch agent must not give its words to a shell, which would change this path"
	}
	missing := strings.Contains(text, "not found") || strings.Contains(text, "No such file")
	switch {
	case isClosed(c.hello), strings.Contains(text, joinedCommand):
		return ""
	case start.Push && (code == 125 || code == 126):
		return " (hint: programs must be allowed to run from the directory for temporary files of that host, TMPDIR or " +
			"else /tmp, which a file system with noexec forbids; set TMPDIR there to another one)"
	case start.Push && !(ssh && code == 255):
		return ""
	case code == 127, missing && !(ssh && code == 255):
		return fmt.Sprintf(" (hint: treerun must be on that host, %s; --push sends it there)", where)
	case ssh && code == 255:
		return fmt.Sprintf(" (hint: \"ssh %s true\" must work without a prompt, as for an unknown host key or a "+
			"password; --ssh-args adds arguments)", c.hosts[0].Target)
	}
	return ""
}

// shellChars are the characters with a meaning to a shell.
const shellChars = " \t\n|&;<>()$`\\\"'*?[#~=%{}!"

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// stderrTail returns the last lines that the process has written to stderr, as one.
func (c *agentConn) stderrTail() string {
	var lines []string
	for _, line := range c.stderr.Lines(math.MaxInt) {
		clean := strings.Map(func(r rune) rune {
			if unicode.IsControl(r) { // those of C1 (U+0080 to U+009F), too
				return -1
			}
			return r
		}, strings.ToValidUTF8(line, "?"))
		if clean = strings.TrimSpace(clean); clean != "" {
			lines = append(lines, clean)
		}
	}
	const shown = 3
	return strings.Join(lines[max(0, len(lines)-shown):], "; ")
}
