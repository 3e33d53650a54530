//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sleeper is a rank that does not use treerun and sleeps for long.
const sleeper = `echo pid $$; exec sleep 300`

// pids reads the process ids that n sleepers print.
func (l *launched) pids(n int) []int {
	l.t.Helper()
	l.expect(n, "pid ")
	var pids []int
	for _, line := range l.output {
		if _, text, ok := strings.Cut(line, "pid "); ok {
			pid, err := strconv.Atoi(text)
			if err != nil {
				l.t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill -9 of any rank, at any moment once it runs: the others are stopped, the
// cause names it, and nothing is left.
func TestKillAnyRank(t *testing.T) {
	for range 6 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		np := 1 + rng.IntN(8)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			l := startTreerun(t, nil, "-np", strconv.Itoa(np), "sh", "-c", sleeper)
			victim := l.pids(np)[rng.IntN(np)]
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			l.checkEnd(137)
			text := l.stderr.String()
			if !strings.Contains(text, "failed first: it was killed by SIGKILL") ||
				!strings.Contains(text, fmt.Sprintf("pid     %d\n", victim)) {
				t.Errorf("the cause does not name process %d and SIGKILL:\n%s", victim, text)
			}
			if np > 1 && !strings.Contains(text, "stopped by treerun") {
				t.Errorf("the others are not mentioned:\n%s", text)
			}
		})
	}
}

// kill -9 of treerun at any moment, also while it starts ranks: no rank is left.
func TestKillTreerun(t *testing.T) {
	for i := range 10 {
		l := startTreerun(t, nil, "-np", "8", "sh", "-c", sleeper)
		if i > 0 {
			time.Sleep(time.Duration(rand.IntN(25)) * time.Millisecond)
		} else {
			l.pids(8)
		}
		l.signal(syscall.SIGKILL)
		l.checkEnd(137)
	}
}

// Processes outside the job survive any end of it: one in
// treerun's own process group, and one that a rank has moved out of its group on purpose.
func TestBystander(t *testing.T) {
	bystander := exec.Command("sleep", "600")
	bystander.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		bystander.Process.Kill()
		bystander.Wait()
	}()
	for _, c := range []struct {
		script string
		signal syscall.Signal
		code   int
	}{
		{"echo ready; exit 0", 0, 0},
		{"echo ready; exit 3", 0, 3},
		{"echo ready; sleep 300", syscall.SIGTERM, 143},
		{"trap '' TERM; echo ready; sleep 300; sleep 300", syscall.SIGINT, 130},
		{"sleep 300 & echo ready; exit 0", 0, 0},
	} {
		l := startTreerun(t, func(c *exec.Cmd) {
			c.SysProcAttr.Pgid = bystander.Process.Pid
		}, "-np", "2", "--shutdown-timeout", "0.1", "sh", "-c", c.script)
		l.expect(2, "ready")
		if c.signal != 0 {
			l.signal(c.signal)
		}
		l.checkEnd(c.code)
		waitForState(t, bystander.Process.Pid, "S")
	}

	daemon := startTreerun(t, nil, "-np", "1", "sh", "-c", "setsid sh -c 'echo pid $$; exec sleep 300' & wait")
	pid := daemon.pids(1)[0]
	daemon.signal(syscall.SIGINT)
	for range daemon.lines {
	}
	daemon.cmd.Wait() // ProcessState holds the exit status
	if code := daemon.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130; stderr:\n%s", code, &daemon.stderr)
	}
	waitForState(t, pid, "S") // the process that left the job
	syscall.Kill(pid, syscall.SIGKILL)
	daemon.checkNothingLeft()
}
