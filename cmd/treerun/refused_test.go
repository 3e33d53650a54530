//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// buildSweep builds a rank that compares the results of calls of every kind: see scripts/faults.
func buildSweep(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "sweep")
	if err := testutil.Build("github.com/treerun/treerun/scripts/faults/testdata/sweep", file); err != nil {
		t.Fatal(err)
	}
	return file
}

// needRoot skips a test in which processes change their user.
func needRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		testutil.Need(t, testutil.Root, errors.New("this process is another user's"))
	}
}

// TestMemoryRefused: ranks that change their user after New, or forbid others to read their memory, send through slots:
// every call of all ranks has the right result, from the one in which the system refuses first.
func TestMemoryRefused(t *testing.T) {
	needRoot(t)
	program := buildSweep(t)
	for _, args := range [][]string{
		{"4", "setuid"}, {"2", "setuid", "-who", "1"}, {"2", "nodump"}, {"4", "nodump", "-who", "0"},
	} {
		l := startTreerun(t, nil, append([]string{"-np", args[0], program, "-after"}, args[1:]...)...)
		l.expect(int(args[0][0]-'0'), "is right")
		l.checkEnd(0)
	}
}

// TestLeftGroup: ranks that have left their process group are stopped, and a line reports it.
func TestLeftGroup(t *testing.T) {
	l := startTreerun(t, nil, "-np", "2", "--timeout", "3", "--shutdown-timeout", "60", buildSweep(t), "-after", "setpgid")
	begun := time.Now()
	l.checkEnd(124)
	text := l.stderr.String()
	if !strings.Contains(text, "has left its process group") || strings.Contains(text, "hang in") {
		t.Error(text)
	}
	if took := time.Since(begun); took > 50*time.Second {
		t.Errorf("SIGTERM has not reached them: %v", took)
	}
}

// TestKillTreerunEndsCapable: kill -9 of treerun ends ranks without a parent-death signal whose environment cannot be
// read, such as those of a file with capabilities.
func TestKillTreerunEndsCapable(t *testing.T) {
	l := startTreerun(t, nil, "-np", "2", "setpriv", "--pdeathsig", "clear", "env", "-i", "sh", "-c",
		"echo pid $$; exec sleep 300")
	pids := l.pids(2)
	l.signal(syscall.SIGKILL)
	for _, pid := range pids {
		for end := time.Now().Add(maxWait / 2); !strings.Contains("Z", processState(pid)); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				syscall.Kill(pid, syscall.SIGKILL)
				t.Fatalf("rank %d is left", pid)
			}
		}
	}
	l.checkEnd(137)
}

// TestSystemCallsFail: a job ends well, or with an error, whichever of its system calls fails. It runs a sample of the
// recipe.
func TestSystemCallsFail(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		testutil.Need(t, testutil.Strace, err)
	}
	testutil.Need(t, testutil.Bash, func() error { _, err := os.Stat("/bin/bash"); return err }())
	bin := filepath.Dir(buildSweep(t))
	if err := testutil.Build("github.com/treerun/treerun/cmd/treerun", filepath.Join(bin, "treerun")); err != nil {
		t.Fatal(err)
	}
	sample := 4
	if testutil.Thorough() {
		sample = 20
	}
	recipe := func(calls string, sample int, processes ...string) string {
		cmd := exec.Command("/bin/bash", append([]string{"../../scripts/faults/syscalls.sh"}, processes...)...)
		cmd.Env = append(os.Environ(), "BIN="+bin, fmt.Sprint("SAMPLE=", sample), "LIMIT=40", "CALLS="+calls)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return string(out)
	}
	t.Log(recipe("", sample, "launcher", "agent", "rank0", "far"))
	text := recipe("readlinkat futex nosuch", 1, "launcher") // named calls replace the sample
	for _, want := range []string{"  readlinkat  ", "left out: futex", "nosuch: a good job makes none"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
