//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// runUnread starts treerun with a stdout that is never read, and returns its exit
// code and its stderr; with shared, stderr is that stdout as well.
func runUnread(t *testing.T, shared bool, args ...string) (code int, stderr string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	mark := fmt.Sprintf("TREERUN_TEST_MARK=%d.%s", os.Getpid(), t.Name())
	cmd.Args[0], cmd.Stdout, cmd.Env = "treerun", w, append(os.Environ(), mark)
	var b bytes.Buffer
	cmd.Stderr = &b
	if shared {
		cmd.Stderr = w
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	killer := time.AfterFunc(maxWait, func() { cmd.Process.Kill() })
	cmd.Wait() // ProcessState holds the exit status
	if !killer.Stop() {
		t.Fatal("treerun waits for a reader")
	}
	if left := processesWith(mark); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	return cmd.ProcessState.ExitCode(), b.String()
}

// If stdout is never read, treerun still ends, with the right code, when the
// job has failed, is over its time, or would have ended well but for the time
// limit, and reports on stderr that output was dropped.
func TestNobodyReads(t *testing.T) {
	const flood = `yes | head -c 300000`
	for _, c := range []struct {
		name  string
		limit time.Duration // the job's time limit, 0 for none
		args  []string
		code  int
		last  string // of the lines on stderr, the beginning of the cause
	}{
		{"endless output", 1500 * time.Millisecond, []string{"yes"}, 124,
			"treerun: the time limit of %v is over: 2 of 2 ranks still ran"},
		{"stubborn ranks", 1500 * time.Millisecond, []string{"sh", "-c", "trap '' TERM; yes; while :; do sleep 0.01; done"},
			124, "treerun: the time limit of %v is over: 2 of 2 ranks still ran"},
		{"only the output is late", 2 * time.Second, []string{"sh", "-c", "printf '%60000s\n%30000s\n' x y"}, 124,
			"treerun: the time limit of %v is over: all ranks had ended"},
		{"failure", 0, []string{"sh", "-c", "[ $RANK = 1 ] && exit 7; " + flood}, 7, "treerun: rank 1 failed first"},
	} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/shared=%v", c.name, shared), func(t *testing.T) {
				t.Parallel()
				testutil.WithLonger(t, c.limit, func(limit time.Duration) error {
					args, last := []string{"-v", "-np", "2", "--shutdown-timeout", "0.2"}, c.last
					if limit > 0 {
						args, last = append(args, "--timeout", limit.String()), fmt.Sprintf(c.last, limit)
					}
					code, stderr := runUnread(t, shared, append(args, c.args...)...)
					if code != c.code {
						return fmt.Errorf("exit code %d, want %d; stderr:\n%s", code, c.code, stderr)
					}
					dropped, cause := strings.Index(stderr, "treerun: stdout has no reader: the last "), strings.Index(stderr, last)
					if !shared && (dropped < 0 || cause < dropped) {
						return fmt.Errorf("stderr does not report the output, and then the cause:\n%s", stderr)
					}
					return nil
				})
			})
		}
	}
}
