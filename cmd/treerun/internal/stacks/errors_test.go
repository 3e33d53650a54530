//go:build linux

package stacks

import (
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// TestNotGo: a program of another language is an error.
func TestNotGo(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var r Reader
	for range 2 {
		if _, err := r.Read(cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), "does not run a Go program") {
			t.Errorf("the error is %v", err)
		}
	}
}

// TestEnded: a process that has ended, before or after it was reaped.
func TestEnded(t *testing.T) {
	process, _ := start(t, built(t, "pure"), "channel")
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	var r Reader
	ended := func() {
		t.Helper()
		_, err := r.Read(process.Pid)
		if err == nil || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("the error is %v", err)
		}
	}
	for end := time.Now().Add(20 * time.Second); ; { // a killed process takes a moment to end
		if _, err := r.Read(process.Pid); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a killed process still has stacks")
		}
	}
	ended()
	process.Wait()
	ended()
}

// TestRights: a process of another user gets an error with the possible causes.
func TestRights(t *testing.T) {
	if flag.Arg(0) == helper {
		var r Reader
		_, err := r.Read(os.Getppid())
		if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "ptrace_scope") &&
			!strings.Contains(err.Error(), "Yama") || !strings.Contains(err.Error(), "seccomp") {
			t.Errorf("the error is %v", err)
		}
		t.Log(err)
		return
	}
	var missing error
	if os.Getuid() != 0 {
		missing = errors.New("the tests do not run as root")
	}
	testutil.Need(t, testutil.Root, missing)
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	copied, err := os.CreateTemp("", "stacks") // t.TempDir is for one user
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(copied.Name())
	_, err = io.Copy(copied, self)
	if err := errors.Join(err, copied.Chmod(0o755), copied.Close()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied.Name(), "-test.run=^TestRights$", "-test.v", helper)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestRights") {
		t.Errorf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}
