//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patientScript is a rank, with a child in its process group, of which both print a line
// when SIGTERM stops them.
const patientScript = `
(trap "echo child told; exit" TERM; echo child ready; while :; do sleep 0.01; done) &
trap "echo rank told; wait; exit 0" TERM
echo rank ready
wait`

func TestStopSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(unix.SignalName(s), func(t *testing.T) {
			t.Parallel()
			// Tests under nohup ignore SIGHUP, which the launcher would inherit;
			// a signal that is caught here is not inherited.
			caught := make(chan os.Signal, 1)
			signal.Notify(caught, s)
			defer signal.Stop(caught)
			l := startTreerun(t, nil, "-np", "2", "sh", "-c", patientScript)
			l.expect(4, "ready")
			l.signal(s)
			l.expect(4, "told")
			l.checkEnd(128 + int(s))
			if got, want := lastLine(l), "treerun: stopped by "+unix.SignalName(s); got != want {
				t.Errorf("the last line on stderr is %q, want %q", got, want)
			}
		})
	}
}

func lastLine(l *launched) string {
	lines := strings.Split(strings.TrimSpace(l.stderr.String()), "\n")
	return lines[len(lines)-1]
}

// A rank that does not stop on SIGTERM is killed after the shutdown timeout, or at a
// second INT. A signal that arrives twice at once, as from timeout(1), counts
// once.
func TestStubbornRanks(t *testing.T) {
	const stubborn = `trap "echo told" TERM; echo ready; while :; do sleep 0.01; done`
	t.Run("shutdown timeout", func(t *testing.T) {
		t.Parallel()
		l := startTreerun(t, nil, "-np", "2", "--shutdown-timeout", "0.2", "sh", "-c", stubborn)
		l.expect(2, "ready")
		l.signal(syscall.SIGTERM)
		l.checkEnd(143)
	})
	t.Run("second INT", func(t *testing.T) {
		t.Parallel()
		l := startTreerun(t, nil, "-np", "2", "--shutdown-timeout", "1h", "sh", "-c", stubborn)
		l.expect(2, "ready")
		l.signal(syscall.SIGINT)
		l.expect(2, "told")
		time.Sleep(150 * time.Millisecond)
		l.signal(syscall.SIGINT)
		l.checkEnd(130)
	})
	t.Run("twice at once", func(t *testing.T) {
		t.Parallel()
		l := startTreerun(t, nil, "-np", "2", "sh", "-c",
			`trap "sleep 0.3; echo cleaned up; exit" TERM; echo ready; while :; do sleep 0.01; done`)
		l.expect(2, "ready")
		l.signal(syscall.SIGTERM)
		l.signal(syscall.SIGTERM)
		l.expect(2, "cleaned up")
		l.checkEnd(143)
	})
}

// When the reader of the output has stopped reading, and the ranks are gone, a
// second INT still ends treerun.
func TestInterruptWithBlockedOutput(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-np", "1", "--shutdown-timeout", "0.1", "yes")
	cmd.Args[0], cmd.Stdout = "treerun", w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	r.Read(make([]byte, 1)) // it prints; from now on there is no reader
	time.Sleep(100 * time.Millisecond)
	cmd.Process.Signal(syscall.SIGINT)
	ranks := (&chaosJob{cmd: cmd}).ranks
	for late := time.Now().Add(maxWait); len(ranks()) > 0 && time.Now().Before(late); {
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond) // otherwise the second counts as the same
	cmd.Process.Signal(syscall.SIGINT)
	killer := time.AfterFunc(maxWait, func() { cmd.Process.Kill() })
	cmd.Wait() // ProcessState holds the exit status
	if !killer.Stop() || cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("treerun ended with %v, want exit code 130", cmd.ProcessState)
	}
}

func TestForwardedSignals(t *testing.T) {
	l := startTreerun(t, nil, "-np", "2", "sh", "-c", `
for s in USR1 USR2 WINCH QUIT; do trap "echo got $s" $s; done
trap exit TERM
echo ready
while :; do sleep 0.01; done`)
	l.expect(2, "ready")
	for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGQUIT} {
		l.signal(s)
		l.expect(2, "got "+strings.TrimPrefix(unix.SignalName(s), "SIG"))
	}
	l.signal(syscall.SIGTERM)
	l.checkEnd(143)
}

// ^Z stops the ranks, then treerun; fg continues all.
func TestSuspend(t *testing.T) {
	l := startTreerun(t, nil, "-np", "2", "sh", "-c", `trap exit TERM; echo pid $$; while :; do sleep 0.01; done`)
	l.expect(2, "pid ")
	var pids []int
	for _, line := range l.output {
		_, text, _ := strings.Cut(line, "pid ")
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	l.signal(syscall.SIGTSTP)
	waitForState(t, l.cmd.Process.Pid, "T") // it has stopped the ranks before
	for _, pid := range pids {
		waitForState(t, pid, "TD") // D: a shell whose child was stopped between vfork and exec
	}
	l.signal(syscall.SIGCONT)
	for _, pid := range append(pids, l.cmd.Process.Pid) {
		waitForState(t, pid, "RS")
	}
	// Stopped ranks can be ended as well.
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		waitForState(t, pid, "T")
	}
	l.signal(syscall.SIGTERM)
	l.checkEnd(143)
}

// Under nohup, SIGHUP does nothing; behind & in a script, SIGINT does nothing. Both stop a job otherwise, and SIGTERM
// stops it always.
func TestIgnoredSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		t.Run(unix.SignalName(s), func(t *testing.T) {
			t.Parallel()
			l := startTreerun(t, afterCommand(fmt.Sprintf("trap '' %d", s)), "-np", "2", "sh", "-c",
				"echo ready; sleep 2; echo done")
			l.expect(2, "ready")
			l.signal(s)
			l.checkEnd(0)
			if n := strings.Count(strings.Join(l.output, "\n"), "done"); n != 2 {
				t.Errorf("%d ranks were done: %q", n, l.output)
			}
		})
	}
}

// A signal while a folder is built ends the go command, and treerun. Even
// SIGKILL leaves nothing.
func TestInterruptedBuild(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go":      "#!/bin/sh\ntouch \"$GOTMPDIR/work\"\nexec sleep 300\n",
		"main.go": "package main\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for s, wantText := range map[syscall.Signal]string{
		syscall.SIGTERM: fmt.Sprintf("treerun: build %s: interrupted by SIGTERM", dir),
		syscall.SIGKILL: "",
	} {
		l := startTreerun(t, func(c *exec.Cmd) {
			c.Env = append(c.Env, "PATH="+dir+":"+os.Getenv("PATH"))
		}, dir)
		for deadline := time.Now().Add(maxWait); ; time.Sleep(time.Millisecond) {
			if found, _ := filepath.Glob(filepath.Join(l.tmp, "*", "work")); len(found) == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the build did not start")
			}
		}
		l.signal(s)
		l.checkEnd(128 + int(s))
		if got := lastLine(l); got != wantText {
			t.Errorf("the last line is %q, want %q", got, wantText)
		}
	}
}

// Ranks of the example agree on the step after which they leave on SIGTERM, and the next job continues from there.
func TestShutdownTogether(t *testing.T) {
	t.Parallel()
	exe, state := filepath.Join(t.TempDir(), "shutdown"), filepath.Join(t.TempDir(), "steps")
	build(t, "../../examples/shutdown", exe)
	last := 0
	for range 2 {
		l := startTreerun(t, nil, "-np", "3", "--sigterm-exit-code", "0", exe, "--state", state)
		l.expect(1, fmt.Sprintf("begins after %d steps", last))
		l.signal(syscall.SIGTERM)
		l.expect(3, "leaves")
		l.checkEnd(0)
		text, err := os.ReadFile(state)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || steps <= last {
			t.Errorf("%q steps after %d", text, last)
		}
		if n := strings.Count(strings.Join(l.output, "\n"), fmt.Sprintf("leaves after %d steps", steps)); n != 3 {
			t.Errorf("%d ranks left after step %d:\n%s", n, steps, strings.Join(l.output, "\n"))
		}
		last = steps
	}
}
