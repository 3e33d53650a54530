//go:build cgo && linux

package main

import (
	"os/exec"
	"testing"
)

// A closed stdout is an error, and no rank starts; /dev/null is no error, even opened for reading, as Python does.
func TestClosedStdout(t *testing.T) {
	to := func(stdout string) func(*exec.Cmd) {
		return func(c *exec.Cmd) {
			c.Path = "/bin/sh"
			c.Args = append([]string{"sh", "-c", `exec treerun "$@" ` + stdout, "-"}, c.Args[1:]...)
		}
	}
	l := startTreerun(t, to(">&-"), "-np", "2", "sh", "-c", "echo started >&2")
	l.checkEnd(125)
	const want = "treerun: stdout is closed (hint: > /dev/null discards the output)\n"
	if got := l.stderr.String(); got != want {
		t.Errorf("stderr is %q, want %q", got, want)
	}
	for _, null := range []string{"> /dev/null", "1<> /dev/null"} {
		l := startTreerun(t, to(null), "-np", "2", "sh", "-c", "echo lost; echo started >&2")
		l.checkEnd(0)
		l.checkStderr("started")
	}
}
