//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// A host of a job fails in one way or another, while ranks on three hosts reduce
// arrays over the network. Every survivor's call returns a typed error (exit code
// 3 of the looper) that names the lost rank, the launcher names the host,
// and nothing is left on any host.
func TestHostsThatFail(t *testing.T) {
	testutil.NotUnderRace(t, "treerun is built without the detector")
	launcher, looper := chaosBinaries(t)
	for name, c := range map[string]struct {
		fail    func(h *nethosts.Hosts) error
		code    int
		stderr  string
		restore func(h *nethosts.Hosts) error
	}{
		"killed": {fail: func(h *nethosts.Hosts) error { return h.Kill(1) }, code: 125, stderr: "host x1 was lost"},
		"stopped": {
			fail: func(h *nethosts.Hosts) error { return h.Signal(1, syscall.SIGSTOP) }, code: 125, stderr: "host x1 was lost",
			restore: func(h *nethosts.Hosts) error { return h.Signal(1, syscall.SIGCONT) },
		},
		"cut off": {fail: func(h *nethosts.Hosts) error { return h.Unplug(0, 1) }, code: 3,
			stderr: "failed first: it exited with code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := nethosts.Up(t, 3, nethosts.Options{Prefix: "x"})
			l := startTreerun(t, func(cmd *exec.Cmd) {
				cmd.Path = launcher
				cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+t.TempDir())
			},
				"--launch-agent", h.Agent(), "-H", "x0,x1,x2", "--peer-timeout", "6", looper)
			l.expect(3, "ready ")
			if err := c.fail(h); err != nil {
				t.Fatal(err)
			}
			l.checkExit(c.code) // which must not depend on later events on the host
			if c.restore != nil {
				if err := c.restore(h); err != nil {
					t.Fatal(err)
				}
			}
			l.checkNothingLeft()
			text := l.stderr.String()
			if !strings.Contains(text, c.stderr) {
				t.Errorf("%q is missing in\n%s", c.stderr, text)
			}
			if strings.Contains(text, "WRONG RESULT") {
				t.Errorf("a rank got a wrong result:\n%s", text)
			}
			for _, rank := range []string{"[0] ", "[2] "} {
				if !strings.Contains(text, rank) {
					t.Errorf("a survivor printed nothing, %s:\n%s", rank, text)
				}
			}
			for i := range h.Len() {
				if err := waitUntilEmpty(h, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// waitUntilEmpty waits until no process is left in a host.
func waitUntilEmpty(h *nethosts.Hosts, i int) error {
	for end := time.Now().Add(maxWait); ; time.Sleep(5 * time.Millisecond) {
		pids, err := h.Pids(i)
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("on host %s processes are left: %v", h.Name(i), pids)
		}
	}
}
