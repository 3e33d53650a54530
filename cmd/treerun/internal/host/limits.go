package host

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// How many processes and threads a start takes at least. A Go program that may not
// start a thread dies with pages of text, so treerun looks before.
const (
	ownTasks   = 6 // of a launcher or an agent, beyond those that it has when main begins
	guardTasks = 5
	goTasks    = 8 // of a rank that is a Go program; of another one it is 1
)

// LimitHint says which limit of this host an error is about, and what to do. It is
// for the end of the error's text, and empty where no limit is known.
func LimitHint(err error) string {
	var r unix.Rlimit
	switch {
	case errors.Is(err, unix.EMFILE):
		_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &r) // Go has raised it as far as it may
		return fmt.Sprintf(" (the limit is %d open files for each process: treerun takes 20, and 4 for each rank; "+
			"ulimit -n, LimitNOFILE= or docker --ulimit nofile raises it)", r.Max)
	case errors.Is(err, unix.ENFILE):
		return " (the whole system's limit: see /proc/sys/fs/file-max)"
	case errors.Is(err, unix.EAGAIN):
		if limit, ok := taskLimit(); ok {
			return fmt.Sprintf(" (the limit is %d processes and threads for this user: %s)", limit, raiseTasks)
		}
		return " (the control group may have no more processes and threads: see pids.max; " + raiseGroup + ")"
	}
	return ""
}

const (
	raiseGroup = "TasksMax= or docker --pids-limit raises it"
	raiseTasks = "ulimit -u, LimitNPROC= or docker --ulimit nproc raises it"
)

// CheckLimits returns an error where this user may not have the threads that a
// launcher or an agent needs, or this process the addresses. It is for the begin of
// either, before the threads are there.
func CheckLimits() error {
	if err := checkAddresses(); err != nil {
		return err
	}
	return checkTasks(ownTasks)
}

// needAddresses is how many bytes of addresses a launcher, an agent or a rank in Go is
// let run with: the Go runtime reserves 0.8 to 1.3 GB before main begins, and the C library
// 64 MiB for each of the first threads. A program that has none left for a thread's stack
// dies with pages of text; under 1.5 GB jobs of two ranks were seen to.
const needAddresses = 2 << 30

// checkAddresses returns an error where this process may not have the addresses that a
// launcher, an agent or a rank needs. Ranks have the same limit.
func checkAddresses() error {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &r); err != nil || r.Cur >= needAddresses {
		return nil
	}
	return fmt.Errorf("the limit is %d KiB of addresses for each process, and treerun and its ranks need %d each, "+
		"few of them with memory (ulimit -v unlimited or LimitAS= raises it; a control group limits memory)", r.Cur>>10,
		needAddresses>>10)
}

// checkTasks returns an error where this user may not have n more processes and
// threads, as far as this process can see.
func checkTasks(n int) error {
	limit, ok := taskLimit()
	if !ok || limit > 4*n+1000 { // looking takes milliseconds
		return nil
	}
	if used := tasksOf(os.Getuid()); used+n > limit {
		return fmt.Errorf("the limit is %d processes and threads for this user, who has %d, and %d more are needed at "+
			"least (%s)", limit, used,
			n, raiseTasks)
	}
	return nil
}

// checkRanks is checkTasks for what starting so many ranks takes.
func checkRanks(ranks int, path string) error {
	err := checkTasks(guardTasks + ranks*goTasks)
	if err == nil {
		return nil
	}
	if _, notGo := buildinfo.ReadFile(path); notGo != nil {
		err = checkTasks(guardTasks + ranks)
	}
	if err != nil {
		return fmt.Errorf("start %d ranks: %w", ranks, err)
	}
	return nil
}

// taskLimit returns how many processes and threads this user may have; false:
// the kernel limits them by the control group only.
func taskLimit() (limit int, ok bool) {
	var r unix.Rlimit
	const most = 1 << 30
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &r); err != nil || r.Cur > most || os.Getuid() == 0 {
		return 0, false
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	const privileged = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_RESOURCE
	if err := unix.Capget(&header, &data[0]); err == nil && data[0].Effective&privileged != 0 {
		return 0, false
	}
	return int(r.Cur), true
}

// tasksOf counts the threads of all processes of a user that are to be seen.
func tasksOf(uid int) int {
	names, _ := filepath.Glob("/proc/[0-9]*/status") // the pattern is fine
	n := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		owner, threads := parseStatus(string(text))
		if owner == uid {
			n += threads
		}
	}
	return n
}

// parseStatus returns the real user and the number of threads in /proc/PID/status.
func parseStatus(text string) (uid, threads int) {
	uid = -1
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "Uid:"); ok {
			_, _ = fmt.Sscan(value, &uid) // else it stays
		} else if value, ok := strings.CutPrefix(line, "Threads:"); ok {
			_, _ = fmt.Sscan(value, &threads)
		}
	}
	return uid, threads
}
