//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/nethosts"
)

// How the ranks of a togetherJob are started.
const (
	fromFirst = iota // treerun runs on the host of rank 0
	fromAway         // treerun runs on none of the hosts
	byOthers         // without treerun, as torchrun does
	starters
)

// togetherJob is a job on several hosts of which some ranks are killed at one moment.
type togetherJob struct {
	hosts, per int // ranks per host
	start      int
	stoppable  bool  // SIGTERM ends a rank
	victims    []int // in the order of the kills
	down       []int // hosts whose every process is killed in the same moment
	after      time.Duration
	seed       uint64

	began    time.Time // of the kills
	code     int       // of treerun
	out, err lockedBuffer
}

// drawTogether chooses job number i. Two of three jobs have the victims that were the worst in earlier versions.
func drawTogether(seed uint64, i int) *togetherJob {
	rng := rand.New(rand.NewPCG(seed, 0))
	j := &togetherJob{hosts: 2 + rng.IntN(3), per: 1 + rng.IntN(4), start: i % starters, seed: seed,
		stoppable: rng.IntN(2) == 0, after: time.Duration(rng.IntN(400_000)) * time.Microsecond}
	if i%10 == 8 { // over 16 ranks, of which only the first ones of the hosts are connected in New
		j.hosts, j.per = 2, 9
	}
	np, per := j.hosts*j.per, j.per
	others := rng.Perm(np - 1) // ranks but 0
	for i := range others {
		others[i]++
	}
	host := func(h int) (all []int) {
		for r := range per {
			all = append(all, h*per+r)
		}
		return all
	}
	switch i / starters % 9 {
	case 0:
		j.victims = []int{0, 1}
	case 1:
		j.victims = []int{1, 0}
	case 2:
		j.victims = []int{0, per}
	case 3:
		j.victims = []int{0, min(per+1, np-1)}
	case 4:
		j.victims = host(0)
	case 5:
		j.victims = []int{0, others[0], others[len(others)-1]}
	case 6:
		j.victims = others[:min(2+rng.IntN(2), len(others))]
	case 7:
		j.victims = []int{0, per}
		if j.start == fromAway && j.hosts > 2 {
			j.down, j.victims = []int{0, 1}, append(host(0), host(1)...)
		}
	default:
		j.victims = host(j.hosts - 1)
		if j.start != byOthers {
			j.down = []int{j.hosts - 1}
		}
	}
	slices.Sort(others)
	j.victims = slices.Compact(j.victims)
	if len(j.victims) >= np { // one rank must survive
		j.victims, j.down = j.victims[:np-1], nil
	}
	return j
}

func (j *togetherJob) String() string {
	return fmt.Sprintf("%d hosts of %d ranks, started %s, SIGTERM ends ranks: %v, killed %v, all of hosts %v", j.hosts,
		j.per, []string{"from host 0", "from away", "without treerun"}[j.start], j.stoppable, j.victims, j.down)
}

// run starts the job, kills ranks of it, and waits for its end. It returns the results of verdict.
func (j *togetherJob) run(h *nethosts.Hosts, tmp, launcher, looper string) ([]time.Duration, error) {
	cmds := j.commands(h, tmp, launcher, looper)
	var all sync.WaitGroup
	defer all.Wait()
	for i, cmd := range cmds {
		cmd.Env = append(append(os.Environ(), "TMPDIR="+tmp, "XDG_CACHE_HOME="+filepath.Join(tmp, "cache"),
			"XDG_CONFIG_HOME="+tmp), cmd.Env...)
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &j.out, &j.err, time.Second
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		hung := time.AfterFunc(maxWait, func() { cmd.Process.Kill() })
		all.Go(func() {
			cmd.Wait() // ProcessState holds the exit status
			hung.Stop()
			if i == 0 { // a job without treerun has no exit code of its own
				j.code = cmd.ProcessState.ExitCode()
			}
		})
	}
	if err := j.kill(h, cmds[0]); err != nil {
		return nil, err
	}
	all.Wait()
	return j.checkOutput()
}

// commands returns the commands that start the job.
func (j *togetherJob) commands(h *nethosts.Hosts, tmp, launcher, looper string) (cmds []*exec.Cmd) {
	args := []string{looper, "-seed", strconv.FormatUint(j.seed, 10)}
	if j.stoppable {
		args = append(args, "-stoppable")
	}
	if j.start != byOthers {
		var list []string
		for i := range j.hosts {
			list = append(list, fmt.Sprintf("%s:%d", h.Name(i), j.per))
		}
		args = append([]string{"-v", "-H", strings.Join(list, ","), "--launch-agent", h.Agent()}, args...)
		if j.start == fromAway {
			return []*exec.Cmd{exec.Command(launcher, args...)}
		}
		return []*exec.Cmd{h.Command(0, launcher, args...)}
	}
	for r := range j.hosts * j.per {
		cmd := h.Command(r/j.per, args[0], args[1:]...)
		cmd.Env = []string{fmt.Sprint("RANK=", r), fmt.Sprint("WORLD_SIZE=", j.hosts*j.per),
			fmt.Sprint("LOCAL_RANK=", r%j.per), fmt.Sprint("LOCAL_WORLD_SIZE=", j.per),
			fmt.Sprint("TREERUN_SEED=", h.Addr(0), ":17017"), "TREERUN_KEY_FILE=" + filepath.Join(tmp, "key")}
		cmds = append(cmds, cmd)
	}
	return cmds
}

var readyLine = regexp.MustCompile(`ready (\d+) rank (\d+)\n`)

// ready waits until all ranks make calls, and returns their processes.
func (j *togetherJob) ready(cmd *exec.Cmd) (pids map[int]int, err error) {
	pids = make(map[int]int)
	for late := time.Now().Add(maxWait); len(pids) < j.hosts*j.per; time.Sleep(time.Millisecond) {
		for _, m := range readyLine.FindAllStringSubmatch(j.out.String(), -1) {
			r, _ := strconv.Atoi(m[2])
			pids[r], _ = strconv.Atoi(m[1])
		}
		if time.Now().After(late) || cmd.Process.Signal(syscall.Signal(0)) != nil {
			return nil, fmt.Errorf("only %d ranks have begun", len(pids))
		}
	}
	return pids, nil
}

// kill waits until all ranks make calls, and for a moment, and kills the victims.
func (j *togetherJob) kill(h *nethosts.Hosts, cmd *exec.Cmd) error {
	pids, err := j.ready(cmd)
	if err != nil {
		return err
	}
	var doomed []int
	for _, r := range j.victims {
		doomed = append(doomed, pids[r])
	}
	for _, i := range j.down {
		more, err := h.Pids(i)
		if err != nil {
			return err
		}
		doomed = append(doomed, more...)
	}
	time.Sleep(j.after)
	j.began = time.Now()
	for _, pid := range doomed {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			return err
		}
	}
	return nil
}

var errorLine = regexp.MustCompile(`looper: rank (\d+): RankError of (-?\d+) at (\d+), in a call since (\d+): (.*)\n`)

// checkOutput returns an error if not every survivor has its typed error, or they name several causes, or any of their
// results was wrong, or treerun names another cause. times has, for each survivor, the time in a call after the kills,
// or in one that began later, before it had its error.
func (j *togetherJob) checkOutput() (times []time.Duration, err error) {
	text := withoutRepeats(j.err.String())
	for _, bad := range []string{"WRONG RESULT", "untyped error", "panic:", "fatal error:"} {
		if strings.Contains(text, bad) {
			return nil, fmt.Errorf("a rank printed %q", bad)
		}
	}
	causes, from := map[string]bool{}, map[int]bool{}
	for _, m := range errorLine.FindAllStringSubmatch(text, -1) {
		own, _ := strconv.Atoi(m[1])
		lost, _ := strconv.Atoi(m[2])
		causes[m[2]] = true
		if !slices.Contains(j.victims, lost) {
			err = fmt.Errorf("rank %d has an error that names rank %d, which was not killed", own, lost)
		}
		if !slices.Contains(j.victims, own) { // else it had its error between two kills
			at, _ := strconv.ParseInt(m[3], 10, 64)
			since, _ := strconv.ParseInt(m[4], 10, 64) // a rank that prepares its next call gets its error in that call
			times = append(times, time.Duration(at-max(since, j.began.UnixMicro()))*time.Microsecond)
			from[own] = true
		}
	}
	switch want := j.hosts*j.per - len(j.victims); {
	case err != nil:
	case len(from) != want:
		err = fmt.Errorf("%d of %d survivors have a typed error", len(from), want)
	case len(causes) != 1:
		err = fmt.Errorf("survivors name %d different ranks", len(causes))
	case j.start == byOthers:
	case len(j.down) > 0 && (j.code == 125 || j.code == 137), len(j.down) == 0 && j.code == 137:
	default:
		err = fmt.Errorf("treerun's exit code is %d", j.code)
	}
	return times, err
}

// TestKillTogether kills two or three ranks, or a host, at one moment, in jobs over two to four hosts, rank 0 among
// them most often. All survivors have one typed error, and no content is wrong. scripts/faults/two-kills.sh does 500.
func TestKillTogether(t *testing.T) {
	h := nethosts.Up(t, 4, nethosts.Options{Prefix: "w"})
	launcher, looper := chaosBinaries(t)
	tmp, seed, n := t.TempDir(), killSeed(t), kills(t, testutil.Count(9, 50))
	if err := os.WriteFile(filepath.Join(tmp, "key"), []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	before := listLeftovers(t, looper, tmp)
	var times []time.Duration
	for i := range n {
		j := drawTogether(seed+uint64(i), i+int(seed%27))
		some, err := j.run(h, tmp, launcher, looper)
		times = append(times, some...)
		if err != nil {
			t.Errorf("TREERUN_KILL_SEED=%d: %v: %v\nstdout:\n%s\nstderr:\n%s", j.seed, j, err, &j.out, &j.err)
		}
		if len(some) > 0 && slices.Max(some) > 150*time.Millisecond {
			t.Logf("seed %d: %v: errors after %v", j.seed, j, some)
		}
	}
	for i := range h.Len() {
		if err := waitUntilEmpty(h, i); err != nil {
			t.Error(err)
		}
	}
	checkNothingLeft(t, looper, tmp, before)
	slices.Sort(times)
	at := func(p float64) float64 { return times[int(p*float64(len(times)-1))].Seconds() }
	if len(times) > 0 {
		t.Logf("%d jobs, %d errors of survivors, s after the kills: p50 %.3f, p99 %.3f, max %.3f", n, len(times), at(0.5),
			at(0.99), at(1))
	}
}

// A rank that learns of the failure of another late, since it was stopped or its host is busy, gets its typed error
// before SIGTERM ends it.
func TestKillLateRank(t *testing.T) {
	launcher, looper := chaosBinaries(t)
	tmp := t.TempDir()
	cmd := exec.Command(launcher, "-np", "3", looper, "-stoppable")
	j := togetherJob{hosts: 1, per: 3, victims: []int{1}}
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "XDG_CACHE_HOME="+tmp)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &j.out, &j.err, maxWait
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(maxWait, func() { cmd.Process.Kill() }).Stop()
	pids, err := j.ready(cmd)
	signal := func(rank int, s syscall.Signal) {
		if err == nil {
			if err = syscall.Kill(pids[rank], s); err != nil {
				err = fmt.Errorf("rank %d has ended before %v: %w", rank, s, err)
			}
		}
	}
	signal(2, syscall.SIGSTOP)
	signal(1, syscall.SIGKILL)
	time.Sleep(800 * time.Millisecond)
	signal(2, syscall.SIGCONT)
	cmd.Wait() // ProcessState holds the exit status
	j.code = cmd.ProcessState.ExitCode()
	if err == nil {
		_, err = j.checkOutput()
	}
	if err != nil {
		t.Errorf("%v\nstderr:\n%s", err, &j.err)
	}
}
