//go:build linux

package inspect

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/job"
)

// Process is the state of a process, that of all of its threads.
type Process struct {
	State  job.ProcState
	Memory int64         // resident bytes
	CPU    time.Duration // that all threads have used so far

	// During the look, which took Over; zero where that did not look at the threads.
	Over  time.Duration
	Used  time.Duration // on processors
	Ready bool          // a thread ran, or was ready to, at the beginning and at the end
	Call  string        // the system call in which a thread is blocked, as one that waits for a disk, a pipe or a lock
	Hangs bool          // a thread was in uninterruptible sleep all the time
}

// Is describes the process in a sentence without its subject.
func (p *Process) Is(pid int) string {
	switch {
	case !p.State.Known():
		return fmt.Sprintf("nothing is known about its process %d", pid)
	case p.State.Stopped() || p.State.Ended():
		return fmt.Sprintf("its process %d is %s", pid, p.State)
	case p.Over == 0:
		return fmt.Sprintf("its process %d is %s", pid, p.State)
	case p.Hangs:
		return fmt.Sprintf("its process %d is blocked in the kernel%s", pid, p.inCall())
	case p.Used >= p.Over/5:
		return fmt.Sprintf("its process %d computes (%d %% of a core)", pid, 100*p.Used/p.Over)
	case p.Call != "":
		return fmt.Sprintf("its process %d is blocked%s", pid, p.inCall())
	case p.Ready:
		return fmt.Sprintf("its process %d is ready to run and gets %d %% of a core", pid, 100*p.Used/p.Over)
	}
	return fmt.Sprintf("its process %d sleeps", pid)
}

func (p *Process) inCall() string {
	if p.Call == "" {
		return ""
	}
	return " in the system call " + p.Call
}

// read sets State, Memory and CPU.
func (p *Process) read(pid int) {
	p.State = job.StatProc(pid)
	text, _ := os.ReadFile(procFile(pid, "stat")) // an ended process has none
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const utime, stime, rss = 14 - 3, 15 - 3, 24 - 3 // of proc_pid_stat(5), behind the name
	if len(fields) > rss {
		const tick = 10 * time.Millisecond
		p.CPU = tick * time.Duration(number(fields[utime])+number(fields[stime]))
		p.Memory = number(fields[rss]) * int64(os.Getpagesize())
	}
}

// Tracee returns a process that a debugger in the process group of pid traces, 0 if there is none.
func Tracee(pid int) int {
	files, _ := filepath.Glob("/proc/[0-9]*/status") // the pattern is valid
	for _, file := range files {
		text, _ := os.ReadFile(file) // an ended process has none
		_, field, _ := strings.Cut(string(text), "\nTracerPid:\t")
		field, _, _ = strings.Cut(field, "\n")
		tracer := int(number(field))
		if tracer == 0 {
			continue
		}
		if group, err := unix.Getpgid(tracer); err == nil && group == pid {
			return int(number(filepath.Base(filepath.Dir(file))))
		}
	}
	return 0
}

// number returns the number in a text of /proc, 0 if there is none.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func procFile(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// threads has the state of the threads of a process at one moment.
type threads struct {
	used  time.Duration
	state map[string]string // of each, as in ps, by its folder
	calls map[string]string
}

// run reports whether a thread runs, or is ready to.
func (t *threads) run() bool {
	for _, state := range t.state {
		if state == "R" {
			return true
		}
	}
	return false
}

// readThreads reads the state of all threads.
func readThreads(pid int) threads {
	t := threads{state: make(map[string]string), calls: make(map[string]string)}
	folders, _ := filepath.Glob(procFile(pid, "task/[0-9]*")) // the pattern is valid
	for _, folder := range folders {
		text, err := os.ReadFile(folder + "/schedstat")
		if used, _, found := strings.Cut(string(text), " "); err == nil && found {
			t.used += time.Duration(number(used))
		}
		stat, _ := os.ReadFile(folder + "/stat") // an ended thread has none
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) == 0 {
			continue
		}
		if t.state[folder] = fields[0]; fields[0] == "R" {
			continue
		}
		if call := blockedIn(folder); call != "" {
			t.calls[folder] = call
		}
	}
	return t
}

// blockedIn returns the system call of a thread that sleeps, "" if it is one in which threads of the Go runtime rest.
func blockedIn(folder string) string {
	text, err := os.ReadFile(folder + "/syscall")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) == 0 {
		return ""
	}
	n, err := strconv.Atoi(fields[0])
	if err != nil || n < 0 {
		return ""
	}
	name, known := callNames[n]
	if !known {
		return fmt.Sprintf("number %d", n)
	}
	return name
}

// callNames has the names of system calls that block, "" for those in which threads of the Go runtime rest.
var callNames = map[int]string{
	unix.SYS_FUTEX: "", unix.SYS_EPOLL_PWAIT: "", unix.SYS_NANOSLEEP: "", unix.SYS_SCHED_YIELD: "",
	unix.SYS_RT_SIGTIMEDWAIT: "", unix.SYS_RESTART_SYSCALL: "", unix.SYS_WAITID: "waitid", unix.SYS_WAIT4: "wait4",
	unix.SYS_READ: "read", unix.SYS_READV: "readv", unix.SYS_PREAD64: "pread", unix.SYS_WRITE: "write",
	unix.SYS_WRITEV: "writev", unix.SYS_PWRITE64: "pwrite", unix.SYS_OPENAT: "openat", unix.SYS_FLOCK: "flock",
	unix.SYS_FCNTL: "fcntl", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_IOCTL: "ioctl",
	unix.SYS_RECVFROM: "recvfrom", unix.SYS_RECVMSG: "recvmsg", unix.SYS_SENDTO: "sendto", unix.SYS_SENDMSG: "sendmsg",
	unix.SYS_ACCEPT: "accept", unix.SYS_ACCEPT4: "accept4", unix.SYS_CONNECT: "connect", unix.SYS_PPOLL: "ppoll",
	unix.SYS_PSELECT6: "pselect", unix.SYS_CLOCK_NANOSLEEP: "clock_nanosleep", unix.SYS_SYNC: "sync",
	unix.SYS_MSGRCV: "msgrcv", unix.SYS_SEMTIMEDOP: "semtimedop", unix.SYS_MUNMAP: "munmap", unix.SYS_MSYNC: "msync",
}

// between sets what happened between two moments that are over apart. thread is the folder of the thread whose system
// call counts. A goroutine may change threads meanwhile; onCPU reports whether it was found on one that runs.
func (p *Process) between(a, b *threads, over time.Duration, thread string, onCPU bool) {
	p.Over, p.Used = over, max(0, b.used-a.used)
	if call := b.calls[thread]; call == a.calls[thread] {
		p.Call = call
	}
	p.Ready = a.run() && (b.run() || onCPU) || b.run() && onCPU
	for folder, state := range b.state {
		if state == "D" && a.state[folder] == state {
			p.Hangs = true
			p.Call = cmp.Or(b.calls[folder], p.Call)
		}
	}
}
