//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// maxWait is the time after which an operation in these tests counts as hung. It is no
// measure of speed. After one and a half times this, a process that sleeps for five minutes
// still runs.
const maxWait = 90 * time.Second

// launched is a treerun that a test has started.
type launched struct {
	t      *testing.T
	cmd    *exec.Cmd
	tmp    string // its TMPDIR
	mark   string // an environment entry that all its descendants have
	stderr bytes.Buffer
	lines  chan string // of stdout
	output []string
}

// startTreerun starts treerun with these arguments; modify, if not nil, changes the
// command before that.
func startTreerun(t *testing.T, modify func(*exec.Cmd), args ...string) *launched {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := &launched{t: t, tmp: t.TempDir(), lines: make(chan string, 1000)}
	l.mark = fmt.Sprintf("TREERUN_TEST_MARK=%d.%s", os.Getpid(),
		filepath.Base(filepath.Dir(l.tmp))+filepath.Base(l.tmp)+t.Name())
	l.cmd = exec.Command(self, args...)
	l.cmd.Args[0] = "treerun" // see TestMain
	l.cmd.Env = append(os.Environ(), "TMPDIR="+l.tmp, l.mark)
	l.cmd.Stderr = &l.stderr
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if modify != nil {
		modify(l.cmd)
	}
	stdout, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.cmd.Process.Kill() // of a test that has failed: an error where it has been waited for
	})
	go func() {
		defer close(l.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			l.lines <- s.Text()
		}
	}()
	return l
}

// expect reads stdout until n lines with this text have arrived.
func (l *launched) expect(n int, text string) {
	l.t.Helper()
	late := time.After(maxWait)
	for n > 0 {
		select {
		case line, ok := <-l.lines:
			if !ok {
				l.t.Fatalf("stdout ended, %d lines with %q missing after\n%s\nstderr:\n%s", n, text, strings.Join(l.output, "\n"),
					&l.stderr)
			}
			l.output = append(l.output, line)
			if strings.Contains(line, text) {
				n--
			}
		case <-late:
			l.cmd.Process.Kill()
			l.t.Fatalf("%d lines with %q are missing after\n%s", n, text, strings.Join(l.output, "\n"))
		}
	}
}

func (l *launched) signal(s syscall.Signal) {
	l.t.Helper()
	if err := l.cmd.Process.Signal(s); err != nil {
		l.t.Fatal(err)
	}
}

// checkEnd waits for the exit code, 128+n for signal n, and checks that nothing of
// the job is left: no process, no file in TMPDIR.
func (l *launched) checkEnd(code int) {
	l.t.Helper()
	l.checkExit(code)
	l.checkNothingLeft()
}

// checkExit waits for the exit code, 128+n for signal n.
func (l *launched) checkExit(code int) {
	l.t.Helper()
	killer := time.AfterFunc(maxWait, func() { l.cmd.Process.Kill() })
	for line := range l.lines {
		l.output = append(l.output, line)
	}
	l.cmd.Wait() // ProcessState holds the exit status
	if !killer.Stop() {
		l.t.Fatalf("treerun did not end; stderr:\n%s", &l.stderr)
	}
	got := l.cmd.ProcessState.ExitCode()
	if ws := l.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		got = 128 + int(ws.Signal())
	}
	if got != code {
		l.t.Errorf("exit code %d, want %d; stderr:\n%s", got, code, &l.stderr)
	}
}

// checkNothingLeft checks that no process and no file of the job is left; killed processes get a moment to vanish.
func (l *launched) checkNothingLeft() {
	l.t.Helper()
	var left []int
	for deadline := time.Now().Add(maxWait / 2); ; time.Sleep(5 * time.Millisecond) {
		if left = processesWith(l.mark); len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(left) > 0 {
		l.t.Errorf("processes are left: %v", left)
		for _, pid := range left {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			l.t.Errorf("%d in state %s: %q", pid, processState(pid), line)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if files, err := os.ReadDir(l.tmp); err != nil || len(files) > 0 {
		l.t.Errorf("left in TMPDIR: %v, %v", files, err)
	}
}

// processesWith returns the processes that have an entry in their environment, without
// zombies, which have none.
func processesWith(entry string) []int {
	var pids []int
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		env, _ := os.ReadFile(name) // it may have ended meanwhile
		if !bytes.Contains(env, []byte(entry+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(name, "/")[2]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processState returns the state of a process as a letter: R, S, T, Z...
func processState(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, ok := strings.Cut(string(text), ") ")
	if !ok {
		return ""
	}
	return rest[:1]
}

func waitForState(t *testing.T, pid int, want string) {
	t.Helper()
	for deadline := time.Now().Add(maxWait); !strings.Contains(want, processState(pid)) ||
		processState(pid) == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is in state %q, want one of %q", pid, processState(pid), want)
		}
	}
}
