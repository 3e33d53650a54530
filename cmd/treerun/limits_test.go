//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// refusalLimit limits the time of a start that cannot succeed, on a busy machine. The ranks
// of these tests would run for minutes.
const refusalLimit = 10 * time.Second

// afterCommand makes treerun run after a command of the shell, such as ulimit.
func afterCommand(command string) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Path = "/bin/sh"
		c.Args = append([]string{"sh", "-c", command + ` && exec treerun "$@"`, "-"}, c.Args[1:]...)
	}
}

// checkRefused waits for the end of a job that could not be started, which must come at once,
// and checks for a line of stderr that contains all of want.
func (l *launched) checkRefused(want ...string) {
	l.t.Helper()
	start := time.Now()
	l.checkEnd(125)
	if took := time.Since(start); took > refusalLimit {
		l.t.Errorf("it took %v to report that the job does not start", took)
	}
	l.checkStderr(want...)
}

// checkStderr checks for a line of stderr that contains all of want.
func (l *launched) checkStderr(want ...string) {
	l.t.Helper()
lines:
	for line := range strings.Lines(l.stderr.String()) {
		for _, w := range want {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		return
	}
	l.t.Errorf("no line of stderr holds %q:\n%s", want, &l.stderr)
}

// A job of which some ranks cannot be started ends, with the ranks that run already:
// these would wait for the others.
func TestStartHalfWay(t *testing.T) {
	for _, rank := range [][]string{{"sleep", "300"}, {"member", "init", "sleep", "300s"}} {
		l := startTreerun(t, afterCommand("ulimit -n 32"), append([]string{"-v", "-np", "6"}, rank...)...)
		l.checkRefused("start rank ", "too many open files", "ulimit -n")
		l.checkStderr("started ", " of 6 ranks")
	}
}

// The same on one of two hosts.
func TestStartHalfWayOfHosts(t *testing.T) {
	const agent = `env FAKEHOST={host} sh -c 'if [ $FAKEHOST = b ]; then ulimit -n 32; fi; exec "$@"' -`
	l := launchHosts(t, "--launch-agent", agent, "-v", "-H", "a:3,b:6", "sleep", "300")
	l.checkRefused("host b: start rank", "too many open files", "ulimit -n")
	l.checkStderr(" of 9 ranks")
}

// An agent with too little address space reports that, and the job ends with treerun's code.
func TestAgentAddressSpace(t *testing.T) {
	const agent = `env FAKEHOST={host} sh -c 'if [ $FAKEHOST = b ]; then ulimit -v 2500000; fi; exec "$@"' -`
	l := launchHosts(t, "--launch-agent", agent, "-H", "a:1,b:1", "sleep", "300")
	l.checkRefused("on host b", "exited with code 125", "the limit is 2500000 KiB of address space", "ulimit -v")
}

// sweepBinaries puts treerun and the looper into a folder.
func sweepBinaries(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	build(t, ".", filepath.Join(dir, "treerun"))
	installLooper(t, dir)
	return dir
}

// sweeper starts ranks under limits of a kind.
type sweeper struct {
	t       *testing.T
	dir     string
	flag    string        // of ulimit
	limit   time.Duration // of a start that does not succeed
	refused int
}

// run runs treerun under a limit.
func (s *sweeper) run(limit int, args ...string) (code int, stderr string, took time.Duration) {
	s.t.Helper()
	script := fmt.Sprintf(`ulimit %s %d && exec ./treerun "$@"`, s.flag, limit)
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "-"}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "TMPDIR="+s.dir, "HOME="+s.dir, "XDG_CACHE_HOME="+s.dir)
	var text bytes.Buffer
	cmd.Stderr = &text
	cmd.WaitDelay = maxWait
	start := time.Now()
	if err := cmd.Start(); err != nil { // not even a shell
		return -1, err.Error(), 0
	}
	killer := time.AfterFunc(maxWait, func() { cmd.Process.Kill() })
	defer killer.Stop()
	cmd.Wait() // ProcessState holds the exit status
	return cmd.ProcessState.ExitCode(), text.String(), time.Since(start)
}

// try starts six ranks under a limit, unless even treerun --version does not run. They
// run, or one line reports the reason at once.
func (s *sweeper) try(limit int, rank ...string) {
	s.t.Helper()
	if code, _, _ := s.run(limit, "--version"); code != 0 {
		return
	}
	code, stderr, took := s.run(limit, append([]string{"-np", "6"}, rank...)...)
	if code == 0 {
		return
	}
	s.refused++
	var lines []string
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "treerun: 6 ranks share ") {
			lines = append(lines, line)
		}
	}
	if code != 125 || len(lines) != 1 || !strings.Contains(lines[0], "ulimit "+s.flag) || took > s.limit {
		s.t.Errorf("ulimit %s %d, %s: code %d after %v, %d lines:\n%.2000s", s.flag, limit, rank[0], code, took,
			len(lines), stderr)
	}
}

// TestLimits: under every limit of open files, and of addresses, with which treerun runs at all, ranks start,
// or one line reports the reason at once.
//
// TREERUN_LIMITS=1 tries all limits up to 64, and allows a start that fails one second.
func TestLimits(t *testing.T) {
	limits := []int{6, 9, 23, 40, 64, 7, 16, 32, 41, 50}[:testutil.Count(5, 10)]
	limit, sleep := refusalLimit, "0.2"
	if os.Getenv("TREERUN_LIMITS") != "" {
		limit, sleep, limits = time.Second, "1.2", nil
		for l := range 64 {
			limits = append(limits, l+1)
		}
	}
	// KiB; under 1.6 GB a Go program may die before main.
	addresses := []int{1_800_000, 3 << 20, 3<<20 - 1, 4_000_000}[:testutil.Count(2, 4)]
	dir := sweepBinaries(t)
	for _, rank := range [][]string{{"sleep", sleep}, {"./looper", "-calls", "5"}} {
		for flag, limits := range map[string][]int{"-n": limits, "-v": addresses} {
			t.Run(flag+" "+filepath.Base(rank[0]), func(t *testing.T) {
				s := &sweeper{t: t, dir: dir, flag: flag, limit: limit}
				for _, l := range limits {
					s.try(l, rank...)
				}
				if s.refused == 0 {
					t.Error("no limit was too low: the test tests nothing")
				}
			})
		}
	}
}
