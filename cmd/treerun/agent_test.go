//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// hostAgent is a launch agent whose hosts are this one under other names.
const hostAgent = `env FAKEHOST={host} sh -c 'exec "$@"' -`

// hostSleeper is a rank on such a host that sleeps for long, with a child
// that does not use treerun.
const hostSleeper = `echo pid $$ on $FAKEHOST; sleep 300 & wait`

// launchHosts starts treerun, under a name with which its agents run as treerun, too.
func launchHosts(t *testing.T, args ...string) *launched {
	t.Helper()
	named := namedTreerun(t)
	return startTreerun(t, func(c *exec.Cmd) { c.Path = named }, append([]string{"--launch-agent", hostAgent}, args...)...)
}

// agentOf returns the process of the agent on a host.
func (l *launched) agentOf(host string) int {
	l.t.Helper()
	for _, pid := range processesWith(l.mark) {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.Contains(env, []byte("FAKEHOST="+host+"\x00")) && bytes.HasSuffix(line, []byte("treerun\x00agent\x00")) {
			return pid
		}
	}
	l.t.Fatalf("no agent on host %s", host)
	return 0
}

// kill -9 of an agent: the ranks of its host end with it, those of the others are
// stopped, and the host is named.
func TestKillAgent(t *testing.T) {
	l := launchHosts(t, "-H", "a:2,b:2,c:1", "sh", "-c", hostSleeper)
	l.expect(5, "pid ")
	syscall.Kill(l.agentOf("b"), syscall.SIGKILL)
	l.checkEnd(125)
	text := l.stderr.String()
	for _, want := range []string{"host b was lost", "was killed by SIGKILL", "2 ranks on it (2,3)",
		"3 ranks stopped by treerun"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// SIGTERM of one agent, which a scheduler may send, stops the job in good order. A warning before it ends nothing.
func TestStopByAgent(t *testing.T) {
	l := launchHosts(t, "-H", "a,b,c", "--fan-out", "1", "--sigterm-exit-code", "0", "sh", "-c",
		"trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.01; done")
	l.expect(3, "up")
	agent := l.agentOf("c")
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM} {
		if err := syscall.Kill(agent, sig); err != nil {
			t.Fatal(err)
		}
	}
	l.expect(3, "saved")
	l.checkEnd(0)
}

// If the agent had others below it, those hosts are lost as well, and nothing
// is left on them.
func TestKillInnerAgent(t *testing.T) {
	testutil.NotUnderRace(t, "TestKillAgent starts the same code")
	l := launchHosts(t, "-H", "n[1-9]", "--fan-out", "2", "sh", "-c", hostSleeper)
	l.expect(9, "pid ")
	syscall.Kill(l.agentOf("n1"), syscall.SIGKILL)
	l.checkEnd(125)
	if text := l.stderr.String(); !strings.Contains(text, "host n1 was lost") {
		t.Errorf("host n1 is not named:\n%s", text)
	}
}

// kill -9 of the launcher: everything ends on all hosts.
func TestKillLauncherOfHosts(t *testing.T) {
	for _, fan := range []string{"16", "1"} {
		l := launchHosts(t, "-H", "a:2,b:2,c:2", "--fan-out", fan, "sh", "-c", hostSleeper)
		l.expect(6, "pid ")
		l.signal(syscall.SIGKILL)
		l.checkEnd(137)
	}
}

// The same while agents and ranks are being started.
func TestKillLauncherOfHostsEarly(t *testing.T) {
	for i := range 8 {
		l := launchHosts(t, "-H", "a:2,b:2,c:2", "--fan-out", "2", "sh", "-c", hostSleeper)
		time.Sleep(time.Duration(i) * 8 * time.Millisecond)
		l.signal(syscall.SIGKILL)
		l.checkEnd(137)
	}
}

// kill -9 of a rank on any host: the code and the cause are those of one host.
func TestKillRankOfHosts(t *testing.T) {
	l := launchHosts(t, "-H", "a:2,b:2", "sh", "-c", hostSleeper)
	victim := l.pidsOn("b")[1]
	syscall.Kill(victim, syscall.SIGKILL)
	l.checkEnd(137)
	if text := l.stderr.String(); !strings.Contains(text, "failed first: it was killed by SIGKILL") ||
		!strings.Contains(text, "host    b\n") {
		t.Errorf("the cause does not name SIGKILL and host b:\n%s", text)
	}
}

// pidsOn returns the ranks on a host, of two hosts with two ranks each.
func (l *launched) pidsOn(host string) []int {
	l.t.Helper()
	l.expect(4, "pid ")
	var pids []int
	for _, line := range l.output {
		var rank, pid int
		var on string
		if _, err := fmt.Sscanf(line, "[%d] pid %d on %s", &rank, &pid, &on); err == nil && on == host {
			pids = append(pids, pid)
		}
	}
	return pids
}

// An agent that is stopped is given up, and ends with its ranks
// without a SIGCONT.
func TestStoppedAgent(t *testing.T) {
	t.Parallel()
	l := launchHosts(t, "-H", "a:1,b:1", "--peer-timeout", "6", "sh", "-c", hostSleeper)
	l.expect(2, "pid ")
	syscall.Kill(l.agentOf("b"), syscall.SIGSTOP)
	l.checkEnd(125)
	if text := l.stderr.String(); !strings.Contains(text, "host b was lost") ||
		!strings.Contains(text, "it has sent nothing for") {
		t.Errorf("the cause does not name host b and its silence:\n%s", text)
	}
}

// A launcher that is stopped for a while does not lose the job: hosts wait.
func TestStoppedLauncher(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "go")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	l := launchHosts(t, "-H", "a:1,b:1", "--peer-timeout", "4", "sh", "-c", `echo pid $$; read -r line < "$0"; exit 0`,
		fifo)
	l.pids(2)
	l.signal(syscall.SIGTSTP)
	waitForState(t, l.cmd.Process.Pid, "T")
	time.Sleep(6 * time.Second) // longer than the timeout
	l.signal(syscall.SIGCONT)
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("1\n2\n"); err != nil {
		t.Fatal(err)
	}
	l.checkEnd(0)
}

// Ctrl-C stops ranks on all hosts; a second one kills those that ignore it.
func TestInterruptHosts(t *testing.T) {
	l := launchHosts(t, "-H", "a:1,b:1", "sh", "-c",
		`trap 'echo heard; exit 0' TERM; echo pid $$; while :; do sleep 0.01; done`)
	l.pids(2)
	l.signal(syscall.SIGINT)
	l.expect(2, "heard")
	l.checkEnd(130)

	deaf := launchHosts(t, "-H", "a:1,b:1", "sh", "-c", `trap '' TERM; echo pid $$; while :; do sleep 0.01; done`)
	deaf.pids(2)
	deaf.signal(syscall.SIGINT)
	time.Sleep(200 * time.Millisecond)
	deaf.signal(syscall.SIGINT)
	deaf.checkEnd(130)
}

// Other signals are passed on.
func TestSignalHosts(t *testing.T) {
	l := launchHosts(t, "-H", "a:1,b:1", "sh", "-c",
		`trap 'echo heard; exit 0' USR1; echo pid $$; while :; do sleep 0.01; done`)
	l.pids(2)
	l.signal(syscall.SIGUSR1)
	l.expect(2, "heard")
	l.checkEnd(0)
}

// Ranks learn which rank is lost, and with which host.
func TestRanksHearOfLostHost(t *testing.T) {
	l := launchHosts(t, "-H", "a:1,b:1", "sh", "-c",
		`if [ $RANK = 0 ]; then exec member init hear; else exec member init sleep 300s; fi`)
	l.expect(2, " of 2, local")
	syscall.Kill(l.agentOf("b"), syscall.SIGKILL)
	l.expect(1, "heard: exited=true rank=1")
	l.checkEnd(125)
	if text := strings.Join(l.output, "\n"); !strings.Contains(text, "was lost with host b") {
		t.Errorf("rank 0 has not received a message about host b:\n%s", text)
	}
}

// --push needs neither treerun nor the program on the other host, and leaves no
// file there; a program that has been built here is sent without --push.
func TestPush(t *testing.T) {
	testutil.NotUnderRace(t, "treerun is built without the detector")
	t.Parallel()
	dir := t.TempDir()
	exe := filepath.Join(dir, "treerun")
	build(t, ".", exe) // a real one: a pushed file has no name from which a test binary knows its command
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho script $RANK on $FAKEHOST\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	binary, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	// The other host has neither: a wrapper hides them.
	hide := `env FAKEHOST={host} sh -c 'chmod 0 ` + exe + ` ` + script + `; exec "$@"' -`
	if os.Getuid() == 0 {
		hide = hostAgent // root executes files of any mode; the checks below show that they were not needed
	}
	for program, want := range map[string]string{script: "script 2 on n3", binary: ""} {
		l := startTreerun(t, func(c *exec.Cmd) { c.Path = exe }, "--launch-agent", hide, "--push", "-H", "n[1-3]",
			"--fan-out", "1", program)
		l.checkEnd(0)
		if !strings.Contains(strings.Join(l.output, "\n"), want) {
			t.Errorf("%s: %q is missing in %q", program, want, l.output)
		}
	}
	l := startTreerun(t, func(c *exec.Cmd) { c.Path = exe }, "--launch-agent", hostAgent, "-H", "n[1-2]",
		"../../examples/hello")
	for line := range l.lines {
		l.output = append(l.output, line)
	}
	l.cmd.Wait() // hello may need a network between hosts: its code does not matter here
	if text := l.stderr.String(); strings.Contains(text, "treerun: host") || strings.Contains(text, "treerun: start") {
		t.Errorf("a built program was not started elsewhere:\n%s", text)
	}
	l.checkNothingLeft()
}

// A connection that has stopped carrying data, in either direction, is
// lost: the host is given up, and its ranks end by themselves.
func TestSilentConnection(t *testing.T) {
	for name, agent := range map[string]string{
		"from the agent": `sh -c '"$@" | cat' {host}`,
		"to the agent":   `sh -c 'cat | "$@"' {host}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := launchHosts(t, "--launch-agent", agent, "-H", "a:1", "--peer-timeout", "5", "sh", "-c", hostSleeper)
			l.expect(1, "pid ")
			stopped := 0
			for _, pid := range processesWith(l.mark) {
				if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); string(line) == "cat\x00" {
					syscall.Kill(pid, syscall.SIGSTOP)
					defer syscall.Kill(pid, syscall.SIGKILL)
					stopped++
				}
			}
			if stopped != 1 {
				t.Fatalf("%d of the connections stopped", stopped)
			}
			l.checkEnd(125)
			if text := l.stderr.String(); !strings.Contains(text, "host a was lost") {
				t.Errorf("host a is not named:\n%s", text)
			}
		})
	}
}

// A rank that is stopped on one of several hosts is named with its state, before the others count it as lost, and in
// the error of the job.
func TestStoppedRankIsNamed(t *testing.T) {
	t.Parallel()
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	l := startTreerun(t, func(c *exec.Cmd) { c.Path, c.Stderr = namedTreerun(t), stderr }, "--launch-agent", hostAgent,
		"-H", "a:1,b:2", "--peer-timeout", "60", "sh", "-c", `echo pid $$; exec sleep 300`)
	pids := l.pids(3)
	syscall.Kill(pids[2], syscall.SIGSTOP)
	want := fmt.Sprintf("is stopped by SIGSTOP (process %d)\n", pids[2])
	text := ""
	for deadline := time.Now().Add(maxWait); !strings.Contains(text, want) && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
		b, _ := os.ReadFile(stderr.Name())
		text = string(b)
	}
	syscall.Kill(pids[0], syscall.SIGKILL)
	l.checkEnd(137)
	b, _ := os.ReadFile(stderr.Name())
	if strings.Count(string(b), "is stopped by") != 1 || !strings.Contains(text, want) {
		t.Errorf("%q is missing, or not alone, in\n%s", want, b)
	}
	if !regexp.MustCompile(`\n    before  rank \d had been stopped by SIGSTOP\n`).Match(b) {
		t.Errorf("the stopped rank is not named in the error:\n%s", b)
	}
}
