//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// kill -9 of treerun ends also the children of ranks and processes that do not use
// treerun: below a wrapper script, in the background, deaf to SIGTERM, left
// by a rank that has ended; but not processes that have left their rank's process group, nor
// treerun's own neighbors.
func TestKillTreerunEndsChildren(t *testing.T) {
	bystander := exec.Command("sleep", "600")
	bystander.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		bystander.Process.Kill()
		bystander.Wait()
	}()
	for name, script := range map[string]string{
		"wrapper":    `sh -c 'echo ready; sleep 300; true'; true`,
		"background": `sleep 300 & sleep 300 & echo ready; wait`,
		"deaf":       `sh -c 'trap "" TERM; echo ready; while :; do sleep 0.01; done'; true`,
		"rank ended": `if [ $RANK = 1 ]; then echo ready; sleep 300; true; else sleep 300 & echo ready; fi`,
	} {
		t.Run(name, func(t *testing.T) {
			l := startTreerun(t, func(c *exec.Cmd) {
				c.SysProcAttr.Pgid = bystander.Process.Pid
			}, "-np", "2", "sh", "-c", script)
			l.expect(2, "ready")
			l.signal(syscall.SIGKILL)
			l.checkEnd(137)
			waitForState(t, bystander.Process.Pid, "S")
		})
	}

	daemon := startTreerun(t, nil, "-np", "1", "sh", "-c", "setsid sh -c 'echo pid $$; exec sleep 300' & wait")
	pid := daemon.pids(1)[0]
	daemon.signal(syscall.SIGKILL)
	for end := time.Now().Add(maxWait / 2); len(processesWith(daemon.mark)) > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("processes are left: %v", processesWith(daemon.mark))
		}
	}
	waitForState(t, pid, "S") // the process that left the job
	syscall.Kill(pid, syscall.SIGKILL)
	daemon.checkEnd(137)
}

// After a normal end no guard is left, not even for a moment.
func TestGuardIsGone(t *testing.T) {
	for _, script := range []string{"exit 0", "exit 3", "kill -9 $$", "sleep 0.1"} {
		l := startTreerun(t, nil, "-np", "2", "sh", "-c", script)
		for range l.lines {
		}
		l.cmd.Wait() // the state does not matter
		if left := processesWith(l.mark); len(left) > 0 {
			t.Errorf("after %q processes are left: %v", script, left)
		}
	}
}

// A guard that is killed is replaced: treerun may be killed next.
func TestGuardIsReplaced(t *testing.T) {
	for _, hosts := range [][]string{{"-np", "2"}, {"-H", "a:2"}} {
		l := launchHosts(t, append(hosts, "sh", "-c", `sleep 300 & sleep 300 & echo ready; wait`)...)
		l.expect(2, "ready")
		first := l.guard(0)
		syscall.Kill(first, syscall.SIGKILL)
		l.guard(first)
		// It gets the list of ranks right after its start.
		time.Sleep(100 * time.Millisecond)
		l.signal(syscall.SIGKILL)
		l.checkEnd(137)
	}
}

// guard waits for a guard of the job that is a process other than other.
func (l *launched) guard(other int) int {
	l.t.Helper()
	for end := time.Now().Add(maxWait); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, pid := range processesWith(l.mark) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if pid != other && bytes.HasPrefix(line, []byte("treerun\x00guard:ranks\x00")) {
				return pid
			}
		}
	}
	l.t.Fatal("no guard comes")
	return 0
}
