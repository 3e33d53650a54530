//go:build linux

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/testutil"
)

// The kill matrix kills a rank of very many jobs, each at a random moment of a random
// call, and compares all results of the survivors: a call returns either an error
// of a known type, or the complete and right result.
//
//	TREERUN_KILLS=2000 go test -timeout 60m -v -run TestKillMatrix ./cmd/treerun
//
// kills 2000 ranks. A job that fails prints its seed; TREERUN_KILL_SEED repeats the
// choices of one.

// kills returns the number of ranks to kill, usual by default.
func kills(t *testing.T, usual int) int {
	t.Helper()
	usual = testutil.Count((usual+2)/3, usual)
	s := os.Getenv("TREERUN_KILLS")
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("TREERUN_KILLS=%q is not a number of kills", s)
	}
	return n
}

// killSeed returns the seed of the first job; that of job i is i higher.
func killSeed(t *testing.T) uint64 {
	t.Helper()
	s := os.Getenv("TREERUN_KILL_SEED")
	if s == "" {
		return uint64(time.Now().UnixNano())
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("TREERUN_KILL_SEED: %v", err)
	}
	return n
}

// lockedBuffer is output that can be read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// killJob is one job of the matrix.
type killJob struct {
	np      int
	crowded bool   // all on one core
	args    string // of the looper
	early   bool   // the kill comes before the ranks make calls
	stop    bool   // another rank is stopped meanwhile
	after   time.Duration

	victim, stopped int // process ids
	ready           bool
	code            int
	out, err        lockedBuffer
}

// drawKill chooses a job. fixed are arguments of the looper that choose its calls,
// on two ranks, each on its core if there are two.
func drawKill(seed uint64, fixed string) *killJob {
	rng := rand.New(rand.NewPCG(seed, 0))
	j := &killJob{np: 2 + rng.IntN(4), after: time.Duration(rng.IntN(60_000)) * time.Microsecond}
	j.crowded, j.early, j.stop = rng.IntN(5) == 0, rng.IntN(20) == 0, rng.IntN(4) == 0
	j.args = fmt.Sprintf("-seed %d", seed)
	if rng.IntN(2) == 0 {
		j.np = 2 // both ends copy where every rank has a core
	}
	if rng.IntN(6) == 0 {
		j.args += " -sparse " + []string{"trees", "aggregators", "shared", "dense"}[rng.IntN(4)]
	}
	if fixed != "" {
		j.np, j.crowded, j.early, j.stop, j.args = 2, false, false, false, fmt.Sprintf("-seed %d %s", seed, fixed)
	}
	return j
}

// run makes the job and kills one of its ranks.
func (j *killJob) run(rng *rand.Rand, tmp, launcher, looper string) error {
	args := append([]string{"-np", strconv.Itoa(j.np), "--peer-timeout", "60", looper}, strings.Fields(j.args)...)
	cmd := exec.Command(launcher, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "XDG_CACHE_HOME="+filepath.Join(tmp, "cache"))
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &j.out, &j.err, time.Second
	if err := startCrowded(cmd, j.crowded); err != nil {
		return err
	}
	hung := time.AfterFunc(maxWait, func() { cmd.Process.Kill() })
	err := j.killRank(rng, cmd)
	cmd.Wait() // ProcessState holds the exit status
	if !hung.Stop() {
		return fmt.Errorf("HANG: the job has not ended after %v", maxWait)
	}
	if err != nil {
		return err
	}
	if j.code = cmd.ProcessState.ExitCode(); j.code < 0 {
		return fmt.Errorf("treerun ended with %v", cmd.ProcessState)
	}
	return j.checkOutput()
}

// startCrowded starts cmd, on one core only if crowded.
func startCrowded(cmd *exec.Cmd, crowded bool) error {
	if !crowded {
		return cmd.Start()
	}
	runtime.LockOSThread() // a process inherits the cores of the thread that starts it
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for cpu := range len(before) * 64 {
		if before.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	err := cmd.Start()
	if back := unix.SchedSetaffinity(0, &before); back != nil {
		return back
	}
	return err
}

// killRank waits until the ranks make calls, and for a moment, then kills one of them.
// Another one may be stopped from before that until after it.
func (j *killJob) killRank(rng *rand.Rand, cmd *exec.Cmd) error {
	var pids []int
	for late := time.Now().Add(maxWait); len(pids) == 0 || !j.early && len(pids) < j.np; time.Sleep(time.Millisecond) {
		if j.early {
			pids = (&chaosJob{cmd: cmd}).ranks()
		} else {
			pids = readyPids(j.out.String())
		}
		if time.Now().After(late) || cmd.Process.Signal(syscall.Signal(0)) != nil {
			return fmt.Errorf("only %d ranks have begun", len(pids))
		}
	}
	time.Sleep(j.after)
	at := rng.IntN(len(pids))
	j.victim = pids[at]
	if j.stop && len(pids) > 1 {
		j.stopped = pids[(at+1+rng.IntN(len(pids)-1))%len(pids)]
		if err := syscall.Kill(j.stopped, syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
		defer func() {
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			_ = syscall.Kill(j.stopped, syscall.SIGCONT) // the launcher may have ended it
		}()
	}
	return syscall.Kill(j.victim, syscall.SIGKILL)
}

// readyPids returns the ranks that have reported that they make calls.
func readyPids(out string) (pids []int) {
	for line := range strings.Lines(out) {
		var pid int
		if _, text, ok := strings.Cut(line, "ready "); ok && strings.HasSuffix(line, "\n") {
			if n, _ := fmt.Sscanf(text, "%d", &pid); n == 1 {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// checkOutput returns an error if a rank got a wrong result, or no error of a known type, or if
// the launcher names another cause.
func (j *killJob) checkOutput() error {
	text := j.err.String()
	j.ready = len(readyPids(j.out.String())) == j.np
	reported := withoutRepeats(text)
	switch reports := strings.Count(reported, ": RankError of ") + strings.Count(reported, ": Error of "); {
	case strings.Contains(text, "WRONG RESULT"):
		return fmt.Errorf("STALE: a rank got a wrong result")
	case strings.Contains(text, "untyped error"):
		return fmt.Errorf("a rank got an untyped error")
	case strings.Contains(text, "panic:") || strings.Contains(text, "fatal error:"):
		return fmt.Errorf("a rank crashed")
	case j.code != 137 || !strings.Contains(text, "SIGKILL") || !strings.Contains(text, strconv.Itoa(j.victim)):
		return fmt.Errorf("exit code %d, want 137 and a cause that names SIGKILL and process %d", j.code, j.victim)
	case j.ready && !j.early && reports != j.np-1:
		return fmt.Errorf("%d of %d survivors reported a typed error", reports, j.np-1)
	}
	return nil
}

// withoutRepeats removes the lines that the launcher repeats.
func withoutRepeats(text string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "treerun:") && !strings.HasPrefix(line, " ") {
			all.WriteString(line)
		}
	}
	return all.String()
}

// killMany kills a rank in each of n jobs, of which as many run at a time as there are cores.
func killMany(t *testing.T, n int, fixed string) {
	launcher, looper := chaosBinaries(t)
	tmp, seed := t.TempDir(), killSeed(t)
	before := listLeftovers(t, looper, tmp)
	var next, stale, hung, other, stopped, crowded, early atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for range min(n, runtime.NumCPU()) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				seed := seed + uint64(i)
				j := drawKill(seed, fixed)
				err := j.run(rand.New(rand.NewPCG(seed, 1)), tmp, launcher, looper)
				for is, count := range map[*atomic.Int64]bool{&stopped: j.stopped > 0, &crowded: j.crowded, &early: j.early} {
					if count {
						is.Add(1)
					}
				}
				switch {
				case err == nil:
					continue
				case strings.HasPrefix(err.Error(), "STALE"):
					stale.Add(1)
				case strings.HasPrefix(err.Error(), "HANG"):
					hung.Add(1)
				default:
					other.Add(1)
				}
				t.Errorf("TREERUN_KILL_SEED=%d: %d ranks, crowded %v, killed %d, stopped %d, looper %s: "+
					"%v\nstdout:\n%s\nstderr:\n%s",
					seed, j.np, j.crowded, j.victim, j.stopped, j.args, err, &j.out, &j.err)
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	t.Logf("%d kills in %.1f s (%.1f a second): %d stale results, %d hangs, %d other faults; %d with a stopped rank, %d "+
		"on one core, %d before the calls",
		n, took.Seconds(), float64(n)/took.Seconds(), stale.Load(), hung.Load(), other.Load(), stopped.Load(), crowded.Load(),
		early.Load())
	checkNothingLeft(t, looper, tmp, before)
}

// TestKillMatrix: calls of all kinds and sizes, 2 to 5 ranks.
func TestKillMatrix(t *testing.T) {
	testutil.NotUnderRace(t, "TestKillConcurrent kills ranks, too")
	killMany(t, kills(t, 20), "")
}

// TestKillBroadcast: 8 MiB from rank 0 and 1 in turn, where each rank has a core. In an earlier
// version the survivor got old data, without an error, in a quarter of the kills.
func TestKillBroadcast(t *testing.T) {
	testutil.NotUnderRace(t, "TestKillConcurrent kills ranks, too")
	killMany(t, kills(t, 10), "-kind Broadcast -bytes 8388608")
}

// TestKillScan: 8 MiB in a pipeline from rank to rank.
func TestKillScan(t *testing.T) {
	testutil.NotUnderRace(t, "TestKillConcurrent kills ranks, too")
	killMany(t, kills(t, 5), "-kind Scan -bytes 8388608")
}

// TestKillConcurrent: eight goroutines of each rank make calls and wait, each on its own communicator.
func TestKillConcurrent(t *testing.T) {
	killMany(t, kills(t, 10), "-comms 8 -kind AllReduce -bytes 16384")
}
