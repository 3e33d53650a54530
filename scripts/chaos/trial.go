//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// trial is one job.
type trial struct {
	*flags
	seed   uint64
	policy string
	size   int
	kinds  []string
	faults []*fault
	dir    string // its TMPDIR
	mark   string // in the environment of its processes

	inject   func()
	launcher int
	group    string // with little memory
	failed   error  // of the driver itself
	wrong    string // what it did wrong; "": nothing

	mu     sync.Mutex
	news   *sync.Cond // of what follows
	text   bytes.Buffer
	job    string         // its id
	pids   map[int]int    // by origin: the latest process
	lines  map[string]int // numbers of lines, by word and origin
	times  map[string][]int64
	closed map[int]int64 // by origin: when it began to close its world
	sizes  []int         // of epochs that made a sum
	ending bool          // a rank closes its world
	// goroutines is how many rank 0 had when its latest epoch began.
	goroutines int
	over       bool
}

// newTrial chooses what happens.
func newTrial(f *flags, seed uint64) (t *trial, err error) {
	r := rand.New(rand.NewPCG(seed, 0))
	t = &trial{flags: f, seed: seed, policy: f.policies[r.IntN(len(f.policies))], size: f.sizes[r.IntN(len(f.sizes))],
		kinds: f.faults, pids: map[int]int{}, lines: map[string]int{}, times: map[string][]int64{}, closed: map[int]int64{},
		mark: fmt.Sprintf("CHAOS=%d-%d", os.Getpid(), seed)}
	t.news = sync.NewCond(&t.mu)
	t.inject = t.injectAll
	t.faults = append(t.faults, t.newFault(r, nil))
	if first := t.faults[0]; r.IntN(3) == 0 && kinds[first.kind].reach == oneRank {
		t.kinds = slices.DeleteFunc(slices.Clone(f.faults), func(k string) bool {
			return k == "stop" && t.size == 2 // no rank would be left that waits for a stopped one
		})
		if len(t.kinds) > 0 {
			t.faults = append(t.faults, t.newFault(r, first))
		}
	}
	t.dir, err = os.MkdirTemp("", "chaos-")
	return t, err
}

// String describes the trial.
func (t *trial) String() string { return fmt.Sprintf("%s, %d ranks, %v", t.policy, t.size, t.faults) }

const (
	limit        = 60 * time.Second // of a trial
	startTimeout = 10 * time.Second
)

// run runs the trial.
func (t *trial) run() {
	args := []string{"--on-failure", t.policy, "--stall-timeout", "1", "--start-timeout", startTimeout.String(),
		"--tag-output=false", "-x", t.mark}
	if t.place.hosts != nil {
		args[3] = "5" // New measures the network
	}
	if t.policy != "shrink" {
		args = append(args, "--max-restarts", "20")
	}
	if t.spares > 0 {
		args = append(args, "--spares", strconv.Itoa(t.spares))
	}
	shm, _ := filepath.Glob("/dev/shm/*")
	hung, err := t.execute(limit, append(args, t.worker), "CHAOS_TIME=1s")
	t.judge(err, hung, shm)
}

// execute runs the job and brings the faults about.
func (t *trial) execute(limit time.Duration, args []string, env ...string) (hung bool, err error) {
	out, end, err := os.Pipe()
	if err != nil {
		return false, err
	}
	commands := t.place.commands(t.mark[len("CHAOS="):], t.size, args)
	for i, c := range commands {
		c.Env = append(os.Environ(), append(env, t.mark, "TREERUN_CHAOS="+t.mark, "TMPDIR="+t.dir,
			"XDG_CACHE_HOME="+filepath.Dir(t.worker))...)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if i == 0 {
			c.Stdout, c.Stderr = end, end
		}
		if err = c.Start(); err != nil {
			return false, err
		}
		if i > 0 {
			go func() { _ = c.Wait() }()
		}
	}
	end.Close()
	t.launcher = commands[0].Process.Pid
	var wait sync.WaitGroup
	wait.Go(func() { t.read(out) })
	wait.Go(t.inject)
	late := time.AfterFunc(limit, func() {
		hung = true
		_ = syscall.Kill(t.launcher, syscall.SIGQUIT)
		time.Sleep(time.Second)
		for _, c := range commands {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		}
	})
	err = commands[0].Wait()
	late.Stop()
	t.mu.Lock()
	t.over = true
	t.news.Broadcast()
	t.mu.Unlock()
	wait.Wait()
	return hung, err
}

// read reads the output of the job.
func (t *trial) read(out *os.File) {
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		t.mu.Lock()
		fmt.Fprintln(&t.text, lines.Text())
		word, rest, _ := strings.Cut(lines.Text(), " ")
		var when int64
		var origin, n int
		if got, _ := fmt.Sscanf(rest, "%d %d %d", &when, &origin, &n); got == 3 {
			t.lines[word+strconv.Itoa(origin)]++
			t.times[word] = append(t.times[word], when)
			switch word {
			case "process":
				t.pids[origin] = n
				t.job = rest[strings.LastIndexByte(rest, ' ')+1:]
			case "new":
				if origin == 0 {
					t.goroutines = n
				}
			case "sum":
				t.sizes = append(t.sizes, n)
			case "closes":
				t.ending, t.closed[origin] = true, when
			}
			t.news.Broadcast()
		}
		t.mu.Unlock()
	}
}

// judge finds out what the job did wrong.
func (t *trial) judge(err error, hung bool, shm []string) {
	var exit *exec.ExitError
	late, lost := false, map[int]bool{}
	for _, f := range t.faults {
		k := kinds[f.kind].reach
		late = late || f.late || k == oneHost && t.policy == "restart" // the job ends with a host
		for rank := range t.size {
			onHost := k == oneHost && t.place.hostOf(rank) == t.hostOf(f)
			if f.sent > 0 && t.closed[rank] < f.sent && (onHost || k == oneRank && rank == f.origin) {
				lost[rank] = lost[rank] || t.policy == "shrink" || onHost && t.spares == 0
			}
		}
	}
	want := t.size
	for _, gone := range lost {
		if gone {
			want--
		}
	}
	if t.faults[0].kind == "grow" {
		want += 2
	}
	all := t.policy == "shrink" && want == 0 // no rank is left
	left := t.leftovers(shm)
	switch text := t.output(); {
	case hung:
		t.wrong = "hangs"
	case t.failed != nil:
		t.wrong = "the driver: " + t.failed.Error()
	case strings.Contains(text, "WRONG"):
		t.wrong = "wrong contents"
	case strings.Contains(text, "LEFT"):
		t.wrong = "leaves something in a rank"
	case strings.Contains(strings.ReplaceAll(text, "panic: a fault", ""), "panic:"):
		t.wrong = "a panic of treerun's"
	case strings.Contains(text, "DATA RACE"):
		t.wrong = "a data race"
	case len(left) > 0:
		t.wrong = fmt.Sprintf("leaves %v", left)
	case err != nil && !errors.As(err, &exit):
		t.wrong = err.Error()
	case err != nil && !late && !all:
		t.wrong = fmt.Sprintf("ends with %v", err)
	case !late && !all && t.recovered() && t.sizes[len(t.sizes)-1] != want:
		t.wrong = fmt.Sprintf("has %d ranks in its last epoch, want %d", t.sizes[len(t.sizes)-1], want)
	}
}

// recovered reports whether a sum has followed the last fault.
func (t *trial) recovered() bool {
	last := t.faults[len(t.faults)-1].sent
	return last > 0 && len(t.sizes) > 0 && slices.Max(t.times["sum"]) > last
}

// output returns what the job has printed so far.
func (t *trial) output() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// leftovers returns the processes, files and sockets of the job that are still there a second later, or when a host
// that is cut off must have ended its processes.
func (t *trial) leftovers(shm []string) (left []string) {
	grace := time.Second
	for _, f := range t.faults {
		if kinds[f.kind].reach == oneHost && t.place.hosts != nil {
			grace = (peerTimeout + 1) * time.Second
			if len(t.times["new"]) == 0 { // it may still wait for the others
				grace = startTimeout + time.Second
			}
		}
	}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		left = nil
		names, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range names {
			env, _ := os.ReadFile(name) // fails for a process that has ended
			if bytes.Contains(env, []byte("TREERUN_CHAOS="+t.mark+"\x00")) {
				left = append(left, "process "+filepath.Base(filepath.Dir(name)))
			}
		}
		files, _ := filepath.Glob(t.dir + "/*")
		shared, _ := filepath.Glob("/dev/shm/*")
		shared = slices.DeleteFunc(shared, func(name string) bool { return slices.Contains(shm, name) })
		left = slices.Concat(left, files, shared)
		sockets, _ := os.ReadFile("/proc/net/unix")
		if t.job != "" && bytes.Contains(sockets, []byte(t.job)) {
			left = append(left, "a socket")
		}
		if len(left) == 0 || time.Since(begin) > grace {
			return left
		}
	}
}

// end removes what belongs to the trial.
func (t *trial) end() (err error) {
	for _, f := range t.faults {
		if k := kinds[f.kind].reach; t.place.hosts != nil && (k == oneHost || f.kind == "slow") {
			err = errors.Join(err, t.place.heal(t.hostOf(f)))
		}
	}
	if t.group != "" {
		err = errors.Join(err, os.Remove(t.group))
	}
	return errors.Join(err, os.RemoveAll(t.dir))
}

// result is the line of a trial in the record, in the form of scripts/report.
type result struct {
	Part   string  `json:"part"`
	Policy string  `json:"who"`
	Fault  string  `json:"collective"`
	Size   int     `json:"np"`
	Seed   uint64  `json:"rep"`
	SumUs  float64 `json:"time_us,omitempty"` // from the fault to the first sum of the last rank
	Loss   struct {
		Faults  int     `json:"faults"`             // that met a process
		ErrorUs float64 `json:"error_us,omitempty"` // from the fault to the error of the last rank
		Verdict string  `json:"verdict,omitempty"`
		Load    float64 `json:"load"` // of the machine
	} `json:"loss"`
}

// row returns the trial's line. Its times count where every error and sum followed the last fault, and the job ran.
func (t *trial) row() *result {
	r := &result{Part: t.part, Policy: t.policy, Fault: t.faults[0].kind, Size: t.size, Seed: t.seed}
	if len(t.faults) > 1 {
		r.Fault = "two"
	}
	r.Loss.Verdict = t.wrong
	load, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(load), &r.Loss.Load)
	last, late := int64(0), false
	for _, f := range t.faults {
		if f.sent > 0 {
			r.Loss.Faults++
		}
		last, late = max(last, f.sent), late || f.late
	}
	errs, sums := t.times["error"], t.times["sum"]
	if late || t.wrong != "" || !t.recovered() || kinds[r.Fault].reach == nothing && r.Fault != "grow" {
		return r
	}
	if r.Fault == "grow" && len(errs) > 0 { // the others' pause
		last = slices.Min(errs)
	}
	if len(errs) > 0 && r.Fault != "grow" {
		r.Loss.ErrorUs = max(0, float64(slices.Max(errs)-last)/1e3)
	}
	r.SumUs = max(0, float64(slices.Max(sums)-last)/1e3)
	return r
}
