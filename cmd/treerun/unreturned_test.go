//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// buildDropper puts the program of scripts/faults/close.sh into a file: its ranks ignore the error of Close.
func buildDropper(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "dropper")
	build(t, "../../scripts/faults/testdata/close", program)
	return program
}

// droppedErrors are the failures that the program causes, with a part of the job's error for each.
var droppedErrors = map[string]string{
	"droppedclose": "Broadcast #1 (1 int64, root 2)",
	"unclosed":     "Broadcast #1 (1 int64, root 2)",
	"split":        "Broadcast #1 (1 int64, root 2)",
	"leftover":     "has not received",
	"leftoverdup":  "has not received",
	"pending":      "under way; Wait for it before Close",
	"aborted":      "rank 1 aborted the communicator: on purpose",
}

// TestDroppedClose: a failure that no call but Close returned fails the job, also if the program ignores the error of
// Close, and all ranks exit with 0.
func TestDroppedClose(t *testing.T) {
	program := buildDropper(t)
	for which, want := range droppedErrors {
		t.Run(which, func(t *testing.T) {
			for range testutil.Count(1, 50) {
				l := startTreerun(t, nil, "-np", "4", program, which)
				l.checkEnd(1)
				if text := l.stderr.String(); !strings.Contains(text, want) || !strings.Contains(text, "failed first: it ") {
					t.Errorf("%q is missing in\n%s", want, text)
				}
			}
		})
	}
}

// TestPanicWithDeferredClose: the rank that panics is the one that failed, although its deferred Close runs before its
// process ends.
func TestPanicWithDeferredClose(t *testing.T) {
	program := buildDropper(t)
	for _, which := range []string{"panic", "panicunclosed"} {
		for range testutil.Count(2, 50) {
			l := startTreerun(t, nil, "-np", "4", program, which)
			l.checkEnd(2)
			for _, want := range []string{"rank 1 failed first: it exited with code 2", "panic: on purpose", "main.main()"} {
				if text := l.stderr.String(); !strings.Contains(text, want) {
					t.Errorf("%s: %q is missing in\n%s", which, want, text)
				}
			}
		}
	}
}

// TestHandledFailure: a failure that a call has returned, and that the program has handled, does not fail the job.
func TestHandledFailure(t *testing.T) {
	program := buildDropper(t)
	for _, which := range []string{"handled", "fine"} {
		for range testutil.Count(3, 50) {
			l := startTreerun(t, nil, "-np", "4", program, which)
			l.checkEnd(0)
			if text := l.stderr.String(); strings.Contains(text, "failed") {
				t.Errorf("%s: %s", which, text)
			}
		}
	}
}

// TestDroppedCloseOfHosts: reports also come from other hosts, through agents, one below the other, and with a
// treerun on each host.
func TestDroppedCloseOfHosts(t *testing.T) {
	program := buildDropper(t)
	check := func(l *launched) {
		t.Helper()
		l.checkEnd(1)
		for _, want := range []string{"rank 2 failed first: it failed in Close and exited with code 0",
			"error   collective: Close on world/split#1: rank 0 has sent 1 int64 with tag 0, which rank 0 has not received"} {
			if text := l.stderr.String(); !strings.Contains(text, want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
	}
	check(launchHosts(t, "-H", "a,b,c", "--fan-out", "1", program, "alone"))
	all := newNodes(t, 3).startAll("-np", "3", program, "alone")
	check(all[0])
	for _, l := range all[1:] {
		l.checkExit(1)
	}
}

// TestDroppedCloseWithoutTreerun: ranks that another launcher started report such a failure on stderr.
func TestDroppedCloseWithoutTreerun(t *testing.T) {
	program := buildDropper(t)
	cmd := exec.Command(program, "pending")
	cmd.Env = append(cmd.Environ(), "TREERUN_RANK=0", "TREERUN_SIZE=1")
	text, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "under way; Wait for it before Close") {
		t.Errorf("%v: %s", err, text)
	}
}
