//go:build linux

// Package stacks reads the stacks of the goroutines of another process, which may be stopped, blocked or parked. That
// process does not notice: the package reads its memory and /proc. On arm64, which has the same layout, it has not been
// tested.
//
// A goroutine that runs on a CPU has no registers that could be read so, and no frames here. The process itself can
// print its stack: a rank has a connection to the launcher. ptrace is not an alternative. No helper process may use it
// where Yama demands an ancestor, and in the launcher itself the waits for the ends of ranks would see its stops.
//
// Reading needs the same rights: the user's, and those of an ancestor where Yama demands it. So it is for the process
// that has started the other.
package stacks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Stacks are the goroutines of a process.
type Stacks struct {
	Go         string // the version of Go, as in "go1.26.8"
	Goroutines []Goroutine
	More       int // goroutines that were not read: there are too many

	modules []string // the modules of the program
}

// Goroutine is a goroutine, with its stack or, in Note, the reason that it has none.
type Goroutine struct {
	ID      uint64
	Status  string // in Go's words: "running", "syscall", "chan receive"
	Thread  int    // the thread that it is on, or 0
	OnCPU   bool   // it runs, waits for a CPU only, or has changed at every attempt to read it
	System  bool   // it belongs to the runtime
	Start   string // its outermost function
	Frames  []Frame
	Partial bool   // there are further frames
	Note    string // why there are no frames
}

// Frame is a call.
type Frame struct {
	Function string // with its package's path
	File     string // as the compiler has recorded it
	Line     int
	Inlined  bool
}

// Reader reads the stacks of processes, and the file of each program only once. Its zero value is ready for use, by one
// goroutine at a time.
type Reader struct {
	programs map[identity]opened
}

type opened struct {
	*program
	err error
}

const (
	maxPrograms   = 64
	maxGoroutines = 10000
)

// Read returns the stacks of a process. The error names the obstacle: no Go program, an unknown version of Go, missing
// rights.
func (r *Reader) Read(pid int) (Stacks, error) {
	s, err := r.read(pid)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH), errors.Is(err, os.ErrProcessDone):
		err = fmt.Errorf("the process has ended (%w)", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOSYS):
		err = fmt.Errorf("%w: this process may not read its memory (%s)", err, refusal())
	}
	return s, fmt.Errorf("read the stacks of process %d: %w", pid, err)
}

// refusal describes the settings that deny access to the memory of other processes.
func refusal() string {
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	yama := "this kernel has no Yama"
	if err == nil {
		yama = "kernel.yama.ptrace_scope is " + strings.TrimSpace(string(scope))
	}
	status, _ := os.ReadFile("/proc/self/status")
	_, seccomp, _ := strings.Cut(string(status), "\nSeccomp:")
	seccomp, _, _ = strings.Cut(seccomp, "\n")
	filter := "no seccomp filter"
	if strings.TrimSpace(seccomp) == "2" {
		filter = "a seccomp filter, which must allow process_vm_readv"
	}
	return yama + ", and there is " + filter
}

func (r *Reader) read(pid int) (Stacks, error) {
	program, err := r.program(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return Stacks{}, err
	}
	p := &process{program: program, pid: pid}
	if err := p.locate(); err != nil {
		return Stacks{}, err
	}
	if err := p.complete(); err != nil {
		return Stacks{}, err
	}
	s := Stacks{Go: p.info.GoVersion, modules: p.modules()}
	s.Goroutines, s.More, err = p.goroutines()
	return s, err
}

func (r *Reader) program(name string) (*program, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	id := identity{uint64(stat.Dev), stat.Ino, stat.Size, stat.Mtim}
	o, ok := r.programs[id]
	if !ok {
		if r.programs == nil || len(r.programs) >= maxPrograms {
			r.programs = map[identity]opened{}
		}
		o.program, o.err = openProgram(name)
		if !errors.Is(o.err, fs.ErrNotExist) { // the process has ended
			r.programs[id] = o
		}
	}
	return o.program, o.err
}

// String returns the text of the goroutines that Go prints in a traceback, without functions inside the runtime. It
// leaves out those that package rank has started, and says how many.
func (s Stacks) String() string {
	var b strings.Builder
	own := 0
	for _, g := range s.Goroutines {
		switch {
		case g.System:
		case s.own(&g):
			own++
		default:
			fmt.Fprintf(&b, "%v\n", g)
		}
	}
	if own > 0 {
		fmt.Fprintf(&b, "...%d of treerun's own goroutines left out...\n", own)
	}
	if s.More > 0 {
		fmt.Fprintf(&b, "...%d more goroutines...\n", s.More)
	}
	return b.String()
}

// String returns a goroutine as Go prints it in a traceback.
func (g Goroutine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "goroutine %d [%s]:\n", g.ID, g.Status)
	if g.Note != "" {
		fmt.Fprintf(&b, "%s(...)\n\t%s\n", g.Start, g.Note)
	}
	all := slices.ContainsFunc(g.Frames, Frame.shown)
	for _, f := range g.Frames {
		if f.shown() == all {
			fmt.Fprintf(&b, "%s(...)\n\t%s:%d\n", f.Function, f.File, f.Line)
		}
	}
	if g.Partial {
		b.WriteString("...additional frames were not read...\n")
	}
	return b.String()
}

// shown reports whether Go prints a frame: it does not belong to the inside of the runtime.
func (f Frame) shown() bool {
	name, in := strings.CutPrefix(f.Function, "runtime.")
	return !in || name != "" && 'A' <= name[0] && name[0] <= 'Z'
}
