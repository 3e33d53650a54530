package job

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ProcState is the state of a process as reported by the kernel. The zero ProcState is the state of a process that does
// not exist, or that /proc does not describe.
type ProcState struct {
	Code   byte           // as in ps: R, S, D, T, t, Z, X; 0: unknown
	Signal syscall.Signal // signal that stopped it, 0 if the kernel does not report it
}

// ReadProc returns the state of process pid. If the process has several threads, Code is D if one of them stays in
// uninterruptible sleep, R if one of them runs, else that of its first thread.
func ReadProc(pid int) ProcState {
	dir := "/proc/" + strconv.Itoa(pid)
	s := readStat(dir + "/stat")
	if s.Code != 'S' && s.Code != 'R' {
		return s
	}
	threads, err := filepath.Glob(dir + "/task/[0-9]*/stat")
	if err != nil {
		return s
	}
	var asleep []string
	for _, file := range threads {
		switch readStat(file).Code {
		case 'D':
			asleep = append(asleep, file)
		case 'R':
			s.Code = 'R'
		}
	}
	if blocked(asleep) {
		s.Code = 'D'
	}
	return s
}

// StatProc is ReadProc without a check of the threads.
func StatProc(pid int) ProcState { return readStat("/proc/" + strconv.Itoa(pid) + "/stat") }

func readStat(file string) ProcState {
	text, err := os.ReadFile(file)
	if err != nil {
		return ProcState{}
	}
	return parse(string(text))
}

// blockedFor is the time that distinguishes a thread that hangs in the kernel from one that waits for a disk.
const blockedFor = 20 * time.Millisecond

// blocked reports whether one of these threads in uninterruptible sleep still is a while later.
func blocked(threads []string) bool {
	if len(threads) == 0 {
		return false
	}
	time.Sleep(blockedFor)
	return slices.ContainsFunc(threads, func(file string) bool { return readStat(file).Code == 'D' })
}

// exitField is the position of exit_code behind the name: field 52 of proc_pid_stat(5). While a process is stopped it
// holds the signal; in kernels before 5.17 it is 0.
const exitField = 52 - 3

// parse parses a line of /proc/PID/stat: the name of the program is in parentheses and may contain any characters; the
// state follows it.
func parse(line string) ProcState {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) == 0 {
		return ProcState{}
	}
	s := ProcState{Code: fields[0][0]}
	if s.Code == 'T' && len(fields) > exitField {
		if n, err := strconv.ParseUint(fields[exitField], 10, 7); err == nil {
			s.Signal = syscall.Signal(n)
		}
	}
	return s
}

// Known reports whether /proc described the process.
func (s ProcState) Known() bool { return s.Code != 0 }

// Stopped reports whether the process is stopped, by a signal or a debugger.
func (s ProcState) Stopped() bool { return s.Code == 'T' || s.Code == 't' }

// Ended reports whether the process has ended, and only its parent has yet to wait for it.
func (s ProcState) Ended() bool { return s.Code == 'Z' || s.Code == 'X' || s.Code == 'x' }

// String returns a description of the state for messages: "stopped by SIGSTOP", "running".
func (s ProcState) String() string {
	switch s.Code {
	case 0:
		return "in an unknown state"
	case 'R':
		return "running"
	case 'S', 'I':
		return "sleeping"
	case 'D':
		return "in uninterruptible sleep"
	case 't':
		return "stopped by a debugger"
	case 'T':
		if name := signalName(s.Signal); name != "" {
			return "stopped by " + name
		}
		return "stopped by a signal"
	case 'Z', 'X', 'x':
		return "ended"
	}
	return fmt.Sprintf("in state %q", s.Code)
}

// SignalName returns the name of a signal, such as "SIGTERM", or its number if it has no name.
func SignalName(s syscall.Signal) string {
	return cmp.Or(signalName(s), fmt.Sprintf("signal %d", int(s)))
}
