//go:build linux

package host

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// formatHint returns the reason why the system does not take a file for an executable.
func formatHint(path string) string {
	theirs, err := executableMachine(path)
	ours, _ := executableMachine("/proc/self/exe")
	switch {
	case err == io.EOF:
		return " (the file is empty)"
	case theirs == elf.EM_NONE:
		return " (a script needs #! and an interpreter in its first line)"
	case theirs == ours:
		return " (the file is damaged: it is an executable for this machine)"
	}
	return fmt.Sprintf(" (the file is an executable for %s, and this host is %s)",
		strings.TrimPrefix(theirs.String(), "EM_"), runtime.GOARCH)
}

// executableMachine returns the architecture of an executable, EM_NONE for a file in another format. The error of an
// empty file is io.EOF.
func executableMachine(path string) (elf.Machine, error) {
	file, err := os.Open(path)
	if err != nil {
		return elf.EM_NONE, err
	}
	defer file.Close()
	var head [20]byte
	_, err = io.ReadFull(file, head[:])
	if err != nil || !bytes.HasPrefix(head[:], []byte(elf.ELFMAG)) {
		return elf.EM_NONE, err
	}
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		return elf.Machine(binary.BigEndian.Uint16(head[18:])), nil
	}
	return elf.Machine(binary.LittleEndian.Uint16(head[18:])), nil
}

// endHint returns why the system has ended a process, still a zombie, or a child of it: a limit of CPU time, or
// exhausted memory; "" where neither is known. A shell whose child was killed by a signal exits with 128 and the
// signal.
func (h *Host) endHint(pid int, status unix.WaitStatus) string {
	sig := syscall.Signal(status.ExitStatus() - 128)
	if status.Signaled() {
		sig = status.Signal()
	}
	if sig != unix.SIGKILL && sig != unix.SIGXCPU {
		return ""
	}
	var limit unix.Rlimit
	var used unix.Rusage // with that of children which were waited for
	err := errors.Join(unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &limit),
		unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, &used))
	seconds := time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
	if sig == unix.SIGXCPU {
		limit.Cur-- // the system has raised it by one
	}
	// The time that the system compares with the limit is counted in another way, by ticks.
	if err == nil && (sig == unix.SIGXCPU || seconds > 0.7*float64(limit.Cur)) {
		return fmt.Sprintf("it had used %.1f s of CPU time, and the limit is %d s for each process (ulimit -t, LimitCPU=)",
			seconds, limit.Cur)
	}
	if kills, file := oomKills("/"); kills > h.oomKills {
		return "out of memory: the system has killed a process of this control group (oom_kill in " + file + ")"
	}
	return ""
}

// memoryGroup finds a line of /proc/self/cgroup with the control group that counts memory: its number, its controllers,
// of which version 2 names none, and the group.
var memoryGroup = regexp.MustCompile(`(?m)^\d+:(|(?:[^:]+,)?memory(?:,[^:]+)?):(.*)$`)

// oomKills returns the number of processes of this one's control group that the system has killed for lack of memory,
// and the file below root with the counter; "" where no group has one.
func oomKills(root string) (kills int, file string) {
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for _, found := range memoryGroup.FindAllStringSubmatch(string(text), -1) {
		dir, name := "sys/fs/cgroup", "memory.events" // version 2
		if controllers := found[1]; controllers != "" {
			dir, name = "sys/fs/cgroup/memory", "memory.oom_control"
		}
		for _, group := range []string{found[2], ""} { // a container may see its own group only, and as the root
			file := filepath.Join(root, dir, group, name)
			if kills, ok := countKills(file); ok {
				return kills, file
			}
		}
	}
	return 0, ""
}

// countKills reads the counter of a control group's processes that were killed for lack of memory.
func countKills(file string) (kills int, ok bool) {
	text, _ := os.ReadFile(file) // a group without the counter has no such line
	_, count, _ := strings.Cut("\n"+string(text), "\noom_kill ")
	_, err := fmt.Sscan(count, &kills)
	return kills, err == nil
}
