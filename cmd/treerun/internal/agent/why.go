package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// exitGrace is how long the end of a connection waits for that of the process:
// its exit code says more.
const exitGrace = 300 * time.Millisecond

// why tells in words why the connection has ended. err is the reader's error.
func (c *agentConn) why(err error) string {
	started := isClosed(c.hello)
	what := fmt.Sprintf("the connection to treerun on host %s has ended: ", c.name)
	if !started {
		what = fmt.Sprintf("start treerun on host %s: ", c.name)
	}
	silent := context.Cause(c.wanted)
	switch {
	case errors.As(silent, new(errSilent)):
		c.kill()
		return what + silent.Error() + c.tail()
	case errors.As(err, new(errStrange)), errors.Is(err, wire.ErrProtocol):
		c.kill()
		return what + err.Error()
	case errors.Is(err, wire.ErrNoHello):
		c.kill()
		return what + err.Error() + c.tail() + c.hint(0)
	}
	select {
	case <-c.exited:
	case <-time.After(exitGrace):
		c.kill()
		if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
			return what + err.Error() + c.tail()
		}
		return what + "it has closed its output" + c.tail()
	}
	select {
	case <-c.words:
	case <-time.After(exitGrace):
	}
	program := c.tree.program()
	if s := c.status; s.Signaled() {
		return fmt.Sprintf("%s%s was killed by %s%s", what, program, unix.SignalName(s.Signal()), c.tail())
	} else if code := s.ExitStatus(); code != 0 || !started {
		return fmt.Sprintf("%s%s exited with code %d%s%s", what, program, code, c.tail(), c.hint(code))
	}
	return what + "treerun there has ended before its ranks" + c.tail()
}

// hint tells what to do about a host on which treerun could not be started.
func (c *agentConn) hint(code int) string {
	text := c.lastWords()
	ssh := len(c.tree.cfg.Join.Start.Command) == 0
	where := "at " + c.tree.cfg.Join.Start.Treerun
	if ssh {
		where += " or in PATH"
	}
	if path := c.tree.cfg.Join.Start.Treerun; !ssh && strings.ContainsAny(path, shellChars) {
		where += ", and the launch agent must not give its words to a shell, which would change this path"
	}
	missing := strings.Contains(text, "not found") || strings.Contains(text, "No such file")
	switch {
	case isClosed(c.hello), strings.Contains(text, joinsWords):
		return ""
	case c.tree.cfg.Join.Start.Push && (code == 125 || code == 126):
		return " (hint: programs must be allowed to run from the directory for temporary files of that host, TMPDIR or " +
			"else /tmp, which a file system with noexec forbids; set TMPDIR there to another one)"
	case c.tree.cfg.Join.Start.Push && !(ssh && code == 255):
		return ""
	case code == 127, missing && !(ssh && code == 255):
		return fmt.Sprintf(" (hint: treerun must be on that host, %s; --push sends it there)", where)
	case ssh && code == 255:
		return fmt.Sprintf(" (hint: \"ssh %s true\" must work without a question; --ssh-args adds arguments)",
			c.hosts[0].Target)
	}
	return ""
}

// shellChars mean something to a shell.
const shellChars = " \t\n|&;<>()$`\\\"'*?[#~=%{}!"

// tail returns the last that the process has written, for the end of an error.
func (c *agentConn) tail() string {
	if text := c.lastWords(); text != "" {
		return ": " + text
	}
	return ""
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lastWords returns the last lines that the process has written to stderr, as one.
func (c *agentConn) lastWords() string {
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
