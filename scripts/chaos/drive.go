package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
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

// flags are those of the driver.
type flags struct {
	treerun  string
	worker   string // this program
	trials   int
	seed     uint64
	policies []string
	sizes    []int
	faults   []string
	launch   []string // before treerun's flags: a command and the flags of hosts
	keep     string
}

// drive runs trials, and prints a table of them.
func drive(args []string) error {
	var f flags
	set := flag.NewFlagSet("chaos", flag.ContinueOnError)
	set.StringVar(&f.treerun, "treerun", "treerun", "the command")
	set.IntVar(&f.trials, "trials", 100, "number of jobs")
	set.Uint64Var(&f.seed, "seed", 1, "of the random choices")
	policies := set.String("policies", "shrink restart respawn", "of --on-failure")
	sizes := set.String("sizes", "2 3 4 8", "numbers of ranks")
	faults := set.String("faults", "kill stop exit panic segv", "of a rank; also guard, agent, launcher")
	set.StringVar(&f.keep, "keep", "", "folder for the output of jobs that did wrong")
	if err := set.Parse(args); err != nil {
		return err
	}
	f.policies, f.faults, f.launch = strings.Fields(*policies), strings.Fields(*faults), set.Args()
	for _, text := range strings.Fields(*sizes) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("-sizes: %w", err)
		}
		f.sizes = append(f.sizes, n)
	}
	var err error
	if f.worker, err = os.Executable(); err != nil {
		return err
	}
	table := newTable()
	for i := range f.trials {
		t := newTrial(&f, f.seed+uint64(i))
		t.run()
		table.add(t)
		if t.wrong != "" {
			fmt.Printf("seed %d: %s: %s\n", t.seed, t, t.wrong)
			if f.keep != "" {
				name := filepath.Join(f.keep, fmt.Sprintf("chaos-%d.txt", t.seed))
				if err := os.WriteFile(name, []byte(t.output()), 0o666); err != nil {
					return err
				}
			}
		}
	}
	table.print(os.Stdout)
	if table.wrong > 0 {
		return fmt.Errorf("%d of %d jobs did wrong", table.wrong, f.trials)
	}
	return nil
}

// fault is one that a trial brings about.
type fault struct {
	kind   string
	origin int
	after  time.Duration // since the start of the job; the second: since the first
	sent   int64         // UnixNano; 0: there was no such process
	closed bool          // the rank had begun to close its world, or had ended
}

// trial is one job.
type trial struct {
	flags  *flags
	seed   uint64
	policy string
	size   int
	faults []*fault
	wrong  string // what it did wrong; "": nothing
	took   time.Duration

	mu     sync.Mutex
	text   bytes.Buffer
	pids   map[int]int  // by origin: the latest process
	closes map[int]bool // by origin
	errors []int64      // times of errors
	sums   []int64      // times of first sums after errors
}

func newTrial(f *flags, seed uint64) *trial {
	r := rand.New(rand.NewPCG(seed, 0))
	t := &trial{flags: f, seed: seed, policy: f.policies[r.IntN(len(f.policies))], size: f.sizes[r.IntN(len(f.sizes))],
		pids: map[int]int{}, closes: map[int]bool{}}
	longest := 1000
	if r.IntN(4) == 0 {
		longest = 60 // while it starts
	}
	t.faults = append(t.faults, t.newFault(r, longest))
	if r.IntN(3) == 0 {
		t.faults = append(t.faults, t.newFault(r, 40))
		for _, k := range t.faults {
			if t.size == 2 && k.kind == "stop" {
				k.kind = "kill" // no rank may be left that waits for a stopped one
			}
		}
	}
	return t
}

func (t *trial) newFault(r *rand.Rand, longest int) *fault {
	return &fault{kind: t.flags.faults[r.IntN(len(t.flags.faults))], origin: r.IntN(t.size),
		after: time.Duration(r.IntN(longest*1000)) * time.Microsecond}
}

// String describes the trial.
func (t *trial) String() string {
	text := fmt.Sprintf("%s, %d ranks", t.policy, t.size)
	for _, f := range t.faults {
		text += fmt.Sprintf(", %s of %d after %v", f.kind, f.origin, f.after)
	}
	return text
}

// limit is how long a trial may take.
const limit = 60 * time.Second

// run runs the trial.
func (t *trial) run() {
	args := slices.Concat(t.flags.launch, []string{t.flags.treerun})
	if len(t.flags.launch) > 0 { // a command that ends with the flags of hosts
		args = slices.Clone(t.flags.launch)
	}
	args = append(args, "-np", strconv.Itoa(t.size), "--on-failure", t.policy, "--stall-timeout", "1",
		"--tag-output=false")
	if t.policy != "shrink" {
		args = append(args, "--max-restarts", "20")
	}
	mark := fmt.Sprintf("CHAOS=%d-%d", os.Getpid(), t.seed)
	cmd := exec.Command(args[0], append(args[1:], "-x", mark, t.flags.worker)...)
	cmd.Env = append(os.Environ(), mark, "TREERUN_CHAOS="+mark, "CHAOS_TIME=1s")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, end, err := os.Pipe()
	if err != nil {
		t.wrong = err.Error()
		return
	}
	cmd.Stdout, cmd.Stderr = end, end
	if err := cmd.Start(); err != nil {
		t.wrong = err.Error()
		return
	}
	end.Close()
	begin := time.Now()
	read := make(chan struct{})
	go func() {
		t.read(out)
		close(read)
	}()
	go t.inject(begin, cmd.Process.Pid)
	hung := time.AfterFunc(limit, func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		time.Sleep(time.Second)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	})
	err = cmd.Wait()
	inTime := hung.Stop()
	t.took = time.Since(begin)
	<-read
	t.judge(err, inTime, mark)
}

// read reads the output of the job.
func (t *trial) read(out *os.File) {
	defer out.Close()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		t.mu.Lock()
		fmt.Fprintln(&t.text, lines.Text())
		var when int64
		var origin, n int
		word, _, _ := strings.Cut(lines.Text(), " ")
		got, _ := fmt.Sscanf(strings.TrimPrefix(lines.Text(), word), "%d %d %d", &when, &origin, &n)
		switch {
		case word == "process" && got == 3:
			t.pids[origin], t.closes[origin] = n, false
		case word == "closes" && got >= 2:
			t.closes[origin] = true
		case word == "error" && got == 3:
			t.errors = append(t.errors, when)
		case word == "sum" && got == 3:
			t.sums = append(t.sums, when)
		}
		t.mu.Unlock()
	}
}

// signals are those of faults.
var signals = map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP, "exit": syscall.SIGUSR1,
	"panic": syscall.SIGUSR2, "segv": syscall.SIGSEGV}

// inject brings the faults about.
func (t *trial) inject(begin time.Time, launcher int) {
	for _, f := range t.faults {
		time.Sleep(time.Until(begin.Add(f.after)))
		begin = time.Now()
		t.mu.Lock()
		pid := t.pids[f.origin]
		f.closed = t.closes[f.origin]
		t.mu.Unlock()
		switch f.kind {
		case "guard", "agent":
			pid = descendant(launcher, f.kind)
		case "launcher":
			pid, f.closed = launcher, true // the job ends with it
		}
		sig, known := signals[f.kind]
		if !known {
			sig = syscall.SIGKILL
		}
		if pid > 0 {
			f.sent = time.Now().UnixNano()
			if syscall.Kill(pid, sig) != nil {
				f.sent = 0
			}
		}
	}
}

// descendant returns a process below another one that is treerun's guard or agent, 0 if there is none.
func descendant(of int, kind string) int {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		text, _ := os.ReadFile(name)
		args := strings.Split(string(text), "\x00")
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if len(args) > 1 && strings.HasPrefix(args[1], kind) && below(pid, of) {
			return pid
		}
	}
	return 0
}

// below reports whether a process has another one as an ancestor.
func below(pid, of int) bool {
	for pid > 1 && pid != of {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return false
		}
		pid, _ = strconv.Atoi(fields[1])
	}
	return pid == of
}

// judge finds out what the job did wrong.
func (t *trial) judge(err error, inTime bool, mark string) {
	late := slices.ContainsFunc(t.faults, func(f *fault) bool { return f.closed })
	var exit *exec.ExitError
	lost := map[int]bool{}
	for _, f := range t.faults {
		lost[f.origin] = lost[f.origin] || f.sent > 0
	}
	all := t.policy == "shrink" && len(lost) == t.size // no rank is left
	left := leftovers(mark)
	switch text := t.output(); {
	case !inTime:
		t.wrong = "hangs"
	case strings.Contains(text, "WRONG"):
		t.wrong = "wrong contents"
	case strings.Contains(strings.ReplaceAll(text, "panic: a fault", ""), "panic:"):
		t.wrong = "a panic of treerun's"
	case strings.Contains(text, "DATA RACE"):
		t.wrong = "a data race"
	case len(left) > 0:
		t.wrong = fmt.Sprintf("leaves processes %v", left)
	case err != nil && !errors.As(err, &exit):
		t.wrong = err.Error()
	case err != nil && !late && !all:
		t.wrong = fmt.Sprintf("ends with %v", err)
	}
}

// output returns what the job has printed so far.
func (t *trial) output() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// leftovers returns the processes that have an entry in their environment, and still have it a second later.
func leftovers(mark string) (pids []int) {
	for begin := time.Now(); time.Since(begin) < time.Second; time.Sleep(20 * time.Millisecond) {
		pids = nil
		names, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range names {
			env, _ := os.ReadFile(name) // fails for a process that has ended
			if bytes.Contains(env, []byte("TREERUN_CHAOS="+mark+"\x00")) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
				pids = append(pids, pid)
			}
		}
		if len(pids) == 0 {
			return nil
		}
	}
	return pids
}
