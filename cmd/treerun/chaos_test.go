//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// The chaos tests kill real ranks of real jobs that make calls of all kinds all
// the time (looper), and check the errors of the others, the exit code and output of the
// launcher, and the leftovers on the machine.
//
// TREERUN_CHAOS=200 raises the number of jobs of each test from its default.
func chaosRuns(t *testing.T, usual int) int {
	t.Helper()
	s := os.Getenv("TREERUN_CHAOS")
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("TREERUN_CHAOS=%q is not a number of runs", s)
	}
	return n
}

// chaosJob is one running job.
type chaosJob struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

func startJob(t *testing.T, tmp, launcher string, args ...string) *chaosJob {
	t.Helper()
	j := &chaosJob{cmd: exec.Command(launcher, args...)}
	j.cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "XDG_CACHE_HOME="+filepath.Join(tmp, "cache"))
	j.cmd.Stdout, j.cmd.Stderr = &j.stdout, &j.stderr
	j.cmd.WaitDelay = maxWait
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return j
}

// wait returns the launcher's exit code, 128+n for signal n.
func (j *chaosJob) wait(t *testing.T) int {
	t.Helper()
	killer := time.AfterFunc(maxWait, func() { j.cmd.Process.Kill() })
	j.cmd.Wait() // ProcessState holds the exit status
	if !killer.Stop() {
		t.Fatalf("the launcher still ran after %v\nstdout:\n%s\nstderr:\n%s", maxWait, &j.stdout, &j.stderr)
	}
	if ws := j.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return j.cmd.ProcessState.ExitCode()
}

// ranks returns the processes that the launcher has started so far,
// except its guard, which is the launcher's executable.
func (j *chaosJob) ranks() []int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", j.cmd.Process.Pid))
	var pids []int
	for _, task := range tasks {
		list, _ := os.ReadFile(task) // the launcher may have ended
		for _, f := range strings.Fields(string(list)) {
			exe, err := os.Readlink("/proc/" + f + "/exe")
			if pid, noNumber := strconv.Atoi(f); err == nil && noNumber == nil && exe != j.cmd.Path {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// listLeftovers returns the objects of the machine that a job could have left behind:
// processes of the looper, shared memory, temporary files, abstract sockets.
func listLeftovers(t *testing.T, looper, tmp string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	exes, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, exe := range exes {
		if target, err := os.Readlink(exe); err == nil && strings.HasPrefix(target, looper) {
			found["process "+exe] = true
		}
	}
	shm, _ := filepath.Glob("/dev/shm/*")
	for _, n := range shm {
		found["file "+n] = true
	}
	err := filepath.WalkDir(tmp, func(name string, d fs.DirEntry, err error) error {
		// Measured graphs are kept for later jobs, under their final names.
		if kept, _ := filepath.Match(filepath.Join(tmp, "cache", "treerun", "topo", "*-*.json"), name); err == nil &&
			!d.IsDir() && !kept {
			found["file "+name] = true
		}
		if errors.Is(err, fs.ErrNotExist) { // a folder that has just been removed
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	others := foreignSockets(filepath.Dir(looper))
	for line := range strings.Lines(string(sockets)) {
		before, name, ok := strings.Cut(line, "@")
		fields := strings.Fields(before) // the last one is the inode
		if ok && len(fields) > 0 && !others[fields[len(fields)-1]] {
			found["socket @"+strings.TrimSpace(name)] = true
		}
	}
	return found
}

// foreignSockets returns the inodes of the sockets of processes whose
// executable is not below dir: those of other tests and jobs.
func foreignSockets(dir string) map[string]bool {
	inodes := make(map[string]bool)
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		inode, ok := strings.CutPrefix(target, "socket:[")
		if err != nil || !ok {
			continue
		}
		exe, err := os.Readlink(filepath.Join(filepath.Dir(filepath.Dir(fd)), "exe"))
		if err == nil && !strings.HasPrefix(exe, dir) {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes
}

// checkNothingLeft compares the leftovers with those before, and waits a little for
// processes that are just ending.
func checkNothingLeft(t *testing.T, looper, tmp string, before map[string]bool) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(maxWait / 2); ; time.Sleep(10 * time.Millisecond) {
		left = left[:0]
		for what := range listLeftovers(t, looper, tmp) {
			if !before[what] {
				left = append(left, what)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %v", left)
		}
	}
}

// reportTimes returns the times at which each surviving rank's call returned a typed error.
func (j *chaosJob) reportTimes() []time.Time {
	var when []time.Time
	for line := range strings.Lines(j.stderr.String()) {
		var r, cause int
		var at int64
		_, text, ok := strings.Cut(line, "looper: ")
		if !ok || strings.HasPrefix(line, "treerun:") || strings.HasPrefix(line, " ") {
			continue // the launcher repeats the last lines of the rank that failed first
		}
		for _, kind := range []string{"RankError", "Error"} {
			if n, _ := fmt.Sscanf(text, "rank %d: "+kind+" of %d at %d:", &r, &cause, &at); n == 3 {
				when = append(when, time.UnixMicro(at))
			}
		}
	}
	return when
}

// chaosTimes are the measurements of TestKillRank.
type chaosTimes struct {
	inCalls     int             // jobs in which all ranks were making calls
	learned     []time.Duration // from the kill to the return of a survivor's call
	launcherEnd time.Duration   // the longest from the last survivor's report to the launcher's end
}

// TestKillRank: kill -9 of any rank at any moment, from the start on. Every
// survivor's call returns a typed error, most within a second and none after a timeout
// only, the launcher names the killed process and exits with 137, and nothing is left.
func TestKillRank(t *testing.T) {
	testutil.NotUnderRace(t, "TestKillAnyRank starts the same code")
	launcher, looper := chaosBinaries(t)
	tmp := t.TempDir()
	before := listLeftovers(t, looper, tmp)
	var times chaosTimes
	for i := range chaosRuns(t, testutil.Count(8, 20)) {
		seed := uint64(time.Now().UnixNano())
		if !t.Run(fmt.Sprintf("run=%d/seed=%d", i, seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			killOneRank(t, rng, tmp, &times, 2+rng.IntN(7), launcher, looper)
		}) {
			break
		}
	}
	checkNothingLeft(t, looper, tmp, before)
	slices.Sort(times.learned)
	t.Logf("%+v", times)
	if n := len(times.learned); n == 0 || times.learned[n/2] > time.Second { // one job may stall on a busy machine
		t.Errorf("half of the ranks learned of it after %v", times.learned[n/2:])
	}
}

// killOneRank starts a job of np ranks, kills one of them, and checks the reports of the others.
func killOneRank(t *testing.T, rng *rand.Rand, tmp string, times *chaosTimes, np int, launcher string,
	program ...string) {
	j := startJob(t, tmp, launcher, append([]string{"-np", strconv.Itoa(np), "--peer-timeout", "60"}, program...)...)
	time.Sleep(time.Duration(rng.IntN(250)) * time.Millisecond)
	pids := j.ranks()
	for late := time.Now().Add(maxWait); len(pids) == 0 && time.Now().Before(late); {
		time.Sleep(5 * time.Millisecond)
		pids = j.ranks()
	}
	if len(pids) == 0 {
		t.Fatal("the launcher has started no rank")
	}
	victim := pids[rng.IntN(len(pids))]
	killed := time.Now()
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	code := j.wait(t)
	ended := time.Now()
	defer func() {
		if t.Failed() {
			t.Logf("%d ranks, killed pid %d\nstdout:\n%s\nstderr:\n%s", np, victim, &j.stdout, &j.stderr)
		}
	}()
	text := j.stderr.String()
	if code != 137 {
		t.Errorf("exit code %d, want 137", code)
	}
	if !strings.Contains(text, "SIGKILL") || !strings.Contains(text, strconv.Itoa(victim)) {
		t.Error("the root cause does not name SIGKILL and the process")
	}
	if strings.Contains(text, "untyped error") || strings.Contains(text, "WRONG RESULT") {
		t.Error("a rank got an untyped error or a wrong result")
	}
	last := killed
	reports := j.reportTimes()
	for _, at := range reports {
		times.learned = append(times.learned, at.Sub(killed))
		if at.After(last) {
			last = at
		}
		if at.Sub(killed) > 50*time.Second { // the peer timeout is a minute
			t.Errorf("a rank learned of it after %v", at.Sub(killed))
		}
	}
	times.launcherEnd = max(times.launcherEnd, ended.Sub(last))
	if strings.Count(j.stdout.String(), "ready ") == np {
		times.inCalls++
		if len(reports) != np-1 {
			t.Errorf("%d of %d survivors reported a typed error", len(reports), np-1)
		}
	}
}

// TestKillLauncher: kill -9 of the launcher at any moment ends all ranks.
func TestKillLauncher(t *testing.T) {
	testutil.NotUnderRace(t, "TestKillTreerun starts the same code")
	launcher, looper := chaosBinaries(t)
	tmp := t.TempDir()
	before := listLeftovers(t, looper, tmp)
	for range chaosRuns(t, testutil.Count(4, 8)) {
		j := startJob(t, tmp, launcher, "-np", strconv.Itoa(2+rand.IntN(7)), looper)
		time.Sleep(time.Duration(rand.IntN(250)) * time.Millisecond)
		if err := j.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if code := j.wait(t); code != 137 {
			t.Errorf("exit code %d, want 137", code)
		}
		checkNothingLeft(t, looper, tmp, before)
	}
}
