//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// joiningAgent is a launch agent that passes its words to a shell as one line, as ssh does.
const joiningAgent = `env FAKEHOST={host} sh -c 'eval "$*"' -`

// buildTreerun builds a treerun that can be pushed: a pushed file has no name from which a
// test binary knows its command. Its path has a space.
func buildTreerun(t *testing.T) func(*exec.Cmd) {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "with space", "treerun")
	build(t, ".", exe)
	return func(c *exec.Cmd) { c.Path = exe }
}

// Whenever the launcher is killed, a --push that has begun leaves nothing on other hosts.
//
// TREERUN_PUSH_KILLS=2000 raises the number of kills.
func TestPushKilled(t *testing.T) {
	testutil.NotUnderRace(t, "treerun is built without the detector")
	kills := testutil.Count(10, 80)
	if s := os.Getenv("TREERUN_PUSH_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("TREERUN_PUSH_KILLS=%q is not a number of kills", s)
		}
		kills = n
	}
	treerun := buildTreerun(t)
	for i := range kills {
		l := startTreerun(t, treerun, "--launch-agent", hostAgent, "--push", "-H", "n1", "sleep", "300")
		time.Sleep(time.Duration(i*100/kills) * time.Millisecond)
		l.signal(syscall.SIGKILL)
		l.checkEnd(137)
		if t.Failed() {
			t.Fatalf("killed %d ms after its start", i*100/kills)
		}
	}
}

// A launch agent that joins its words is reported where that matters.
func TestJoiningAgent(t *testing.T) {
	treerun := buildTreerun(t)
	l := startTreerun(t, treerun, "--launch-agent", joiningAgent, "--push", "-H", "n1", "true")
	l.checkEnd(125)
	l.checkStderr("start treerun on host n1", "the launch agent joins the words of its command")
	l = startTreerun(t, treerun, "--launch-agent", joiningAgent, "-H", "n1", "true")
	l.checkEnd(125)
	l.checkStderr("start treerun on host n1", "with space/treerun", "must not give its words to a shell")
	// An agent of the other kind supports a path with a space, and --push.
	l = startTreerun(t, treerun, "--launch-agent", hostAgent, "-H", "n1", "true")
	l.checkEnd(0)
	l = startTreerun(t, treerun, "--launch-agent", hostAgent, "--push", "-H", "n1", "true")
	l.checkEnd(0)
}
