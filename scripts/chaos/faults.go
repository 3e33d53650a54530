//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fault is one that a trial brings about.
type fault struct {
	kind   string
	origin int
	at     string        // the word of a rank's line that it follows; "": the start of the job, or the fault before
	after  time.Duration // that
	sent   int64         // UnixNano; 0: there was no such process
	late   bool          // the job had begun to end
}

func (f *fault) String() string {
	at := f.at
	if at == "" {
		at = "start"
	}
	return fmt.Sprintf("%s of %d %v after %s", f.kind, f.origin, f.after, at)
}

// reach is what a kind of fault affects.
type reach int

const (
	oneRank  reach = iota
	oneHost        // not the launcher's
	nothing        // the job continues as it is
	wholeJob       // it ends
)

// kinds holds the kinds of faults: what each affects, and its action. pid is the rank's process.
var kinds = map[string]struct {
	reach reach
	act   func(t *trial, f *fault, pid int) error
}{
	"kill":     {oneRank, send(syscall.SIGKILL)},
	"stop":     {oneRank, send(syscall.SIGSTOP)},
	"segv":     {oneRank, send(syscall.SIGSEGV)},
	"exit":     {oneRank, send(syscall.SIGUSR1)}, // see work
	"panic":    {oneRank, send(syscall.SIGUSR2)},
	"oom":      {oneRank, starve},
	"guard":    {nothing, helper("guard")},
	"agent":    {oneHost, helper("agent")},
	"launcher": {wholeJob, func(t *trial, _ *fault, _ int) error { return syscall.Kill(t.launcher, syscall.SIGKILL) }},
	"grow":     {nothing, grow},
	// Those of the network, and of hosts in it.
	"host": {oneHost, func(t *trial, f *fault, _ int) error {
		return errors.Join(t.place.hosts.Unplug(0, t.hostOf(f)), t.place.hosts.Kill(t.hostOf(f)))
	}},
	"half-open": {oneHost, func(t *trial, f *fault, _ int) error {
		return errors.Join(t.place.hosts.Unplug(0, t.hostOf(f)), t.place.hosts.Kill(t.hostOf(f)),
			t.place.hosts.Plug(0, t.hostOf(f)))
	}},
	"cut":     {oneHost, func(t *trial, f *fault, _ int) error { return t.place.hosts.Unplug(0, t.hostOf(f)) }},
	"one-way": {oneHost, func(t *trial, f *fault, _ int) error { return t.place.hosts.Mute(0, t.hostOf(f)) }},
	"slow":    {nothing, func(t *trial, f *fault, _ int) error { return t.place.hosts.SetRate(0, t.hostOf(f), "5mbit") }},
}

// hostOf returns the host that a fault of a host affects: not the launcher's.
func (t *trial) hostOf(f *fault) int { return 1 + f.origin%(hostCount-1) }

// send returns the action that sends a rank a signal.
func send(sig syscall.Signal) func(*trial, *fault, int) error {
	return func(_ *trial, _ *fault, pid int) error {
		if pid == 0 {
			return syscall.ESRCH
		}
		return syscall.Kill(pid, sig)
	}
}

// starve moves a rank to a group with little memory, and makes it allocate.
func starve(t *trial, _ *fault, pid int) error {
	if pid == 0 {
		return syscall.ESRCH
	}
	group, err := t.memoryGroup()
	if err == nil {
		err = os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	}
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGHUP) // see work
}

// memoryGroup makes a control group with 64 MiB, once.
func (t *trial) memoryGroup() (string, error) {
	if t.group != "" {
		return t.group, nil
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	dir := ""
	for line := range strings.Lines(string(text)) {
		if fields := strings.SplitN(strings.TrimSpace(line), ":", 3); fields[1] == "memory" {
			dir = filepath.Join("/sys/fs/cgroup/memory", fields[2])
		} else if fields[1] == "" && dir == "" {
			dir = filepath.Join("/sys/fs/cgroup", fields[2])
		}
	}
	if err == nil {
		dir, err = os.MkdirTemp(dir, "chaos-")
	}
	if err == nil {
		t.group = dir
		err = os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte("64M"), 0)
		if errors.Is(err, os.ErrNotExist) {
			err = os.WriteFile(filepath.Join(dir, "memory.max"), []byte("64M"), 0)
		}
	}
	return dir, err
}

// helper returns the action that kills a process of treerun's: a guard, or the agent of a host.
func helper(kind string) func(*trial, *fault, int) error {
	return func(t *trial, f *fault, _ int) error {
		names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range names {
			text, _ := os.ReadFile(name)
			args := strings.Split(string(text), "\x00")
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if len(args) > 1 && strings.HasPrefix(args[1], kind) && below(pid, t.launcher) &&
				(kind != "agent" || t.place.has(t.hostOf(f), pid)) {
				return syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		return syscall.ESRCH
	}
}

// grow adds two ranks.
func grow(t *trial, _ *fault, _ int) error {
	t.mu.Lock()
	job := t.job
	t.mu.Unlock()
	if job == "" {
		return syscall.ESRCH
	}
	out, err := exec.Command(t.place.treerun, "resize", job, "-np", strconv.Itoa(t.size+2)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("resize: %w: %s", err, out)
	}
	return nil
}

// parent returns the parent of a process, 0 if there is none.
func parent(pid int) (ppid int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 {
		ppid, _ = strconv.Atoi(fields[1])
	}
	return ppid
}

// below reports whether a process has another one as an ancestor.
func below(pid, of int) bool {
	for pid > 1 && pid != of {
		pid = parent(pid)
	}
	return pid == of
}

// newFault chooses a fault. The times of a second one are short.
func (t *trial) newFault(r *rand.Rand, first *fault) *fault {
	f := &fault{kind: t.kinds[r.IntN(len(t.kinds))], origin: r.IntN(t.size)}
	when := []string{"", "process", "new", "restore", "sum", "closes"}
	longest := time.Second
	if first != nil {
		when, longest = []string{"", "", "error", "new", "restore"}, 40*time.Millisecond
	}
	f.at = when[r.IntN(len(when))]
	switch {
	case f.at == "error" && f.origin == first.origin: // it has no error, but a new process
		f.at = "new"
	case f.at == "sum":
		longest = 500 * time.Millisecond
	case f.at != "":
		longest = 3 * time.Millisecond
	}
	f.after = time.Duration(r.Int64N(int64(longest/time.Microsecond))) * time.Microsecond
	return f
}

// injectAll brings the faults about.
func (t *trial) injectAll() {
	for _, f := range t.faults {
		t.mu.Lock()
		begin, count := time.Now(), t.lines[f.at+strconv.Itoa(f.origin)]
		if f == t.faults[0] {
			count = 0
		}
		for f.at != "" && t.lines[f.at+strconv.Itoa(f.origin)] == count && !t.over {
			t.news.Wait()
			begin = time.Now()
		}
		t.mu.Unlock()
		time.Sleep(time.Until(begin.Add(f.after)))
		t.mu.Lock()
		pid := t.pids[f.origin]
		started := len(t.times["new"]) > 0
		f.late = t.ending || t.over
		over := t.over
		t.mu.Unlock()
		if over {
			return
		}
		k := kinds[f.kind]
		f.sent = time.Now().UnixNano()
		f.late = f.late || k.reach == wholeJob || k.reach == oneHost && !started // all hosts have to start
		if err := k.act(t, f, pid); err != nil {
			f.sent = 0
			if !errors.Is(err, syscall.ESRCH) && !f.late {
				t.failed = err
			}
		}
	}
}
