//go:build linux

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// writer calls a function with what is written.
type writer func(text []byte)

func (w writer) Write(text []byte) (int, error) {
	w(text)
	return len(text), nil
}

// A process that cannot be started is a loss, of which each takes one restart. Here the program is not executable until
// a line has reported that; or it is for good.
func TestUnstarted(t *testing.T) {
	const lives = `#!/bin/sh
test $RANK$TREERUN_EPOCH = 20 && { chmod -x $0; exit 3; }
test $1 = respawn && exec lives 20
test $TREERUN_EPOCH = 0 && { trap "exit 0" TERM; sleep 300 & wait; }
true
`
	for _, c := range []struct{ policy, next, ended string }{
		{"respawn", "it starts again (restart 2 of 2)", "3 (0-2)"},
		{"restart", "all ranks start again (restart 2 of 2)", "3 (0-2)"},
		{"respawn", "the job ends: --max-restarts 2 is reached", ""},
		{"restart", "the job ends: --max-restarts 2 is reached", ""},
	} {
		t.Run(c.policy+c.ended, func(t *testing.T) {
			t.Parallel()
			name := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(name, []byte(lives), 0o700); err != nil {
				t.Fatal(err)
			}
			repair := writer(func(text []byte) {
				if bytes.Contains(text, []byte("permission denied")) && c.ended != "" {
					_ = os.Chmod(name, 0o700)
				}
			})
			change := func(cmd *exec.Cmd) { cmd.Stderr = io.MultiWriter(cmd.Stderr, repair) }
			l := startTreerun(t, change, "-np", "3", "--on-failure", c.policy, "--max-restarts", "2", name, c.policy)
			if c.ended != "" {
				l.checkEnd(0)
			} else {
				l.checkEnd(126)
			}
			text := l.stderr.String()
			want := "run " + name + ": permission denied (is its file system mounted noexec? treerun builds in TMPDIR); " +
				c.next + "\n"
			if strings.Count(text, want) != 1 || !strings.Contains(text, "has ended well with "+c.ended) && c.ended != "" {
				t.Errorf("stderr:\n%s", text)
			}
		})
	}
}
