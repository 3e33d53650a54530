package guard

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/rank/job"
)

// group is the process group of a rank, which leads it or has led it.
type group struct {
	id    int
	pidfd int // of the rank
}

// signal sends sig to all members; with sig 0 it only looks. ESRCH: there are
// none; EINVAL: the kernel cannot do it.
func (g group) signal(sig syscall.Signal) error {
	return unix.PidfdSendSignal(g.pidfd, sig, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
}

// signalByNumber sends sig to the processes in groups of these numbers that
// have the job's id in their environment, and tells whether there are any. A
// member that has cleared its environment is not found; somebody else's process
// never is.
func signalByNumber(groups []group, jobID string, sig syscall.Signal) (found bool) {
	return signalThose(sig, func(pid int) bool {
		id := groupOf(pid)
		return slices.ContainsFunc(groups, func(g group) bool { return g.id == id }) && carries(pid, job.EnvJobID+"="+jobID)
	})
}

// signalRank sends sig to the processes of a session that have the job's id and
// the rank in their environment, and tells whether there are any.
func signalRank(rank, session int, jobID string, sig syscall.Signal) (found bool) {
	return signalThose(sig, func(pid int) bool {
		sid, err := unix.Getsid(pid)
		return err == nil && sid == session && carries(pid, job.EnvJobID+"="+jobID) && carries(pid, job.EnvRank+"="+strconv.Itoa(rank))
	})
}

// signalThose sends sig to all processes that are meant, and tells whether there
// are any.
func signalThose(sig syscall.Signal, meant func(pid int) bool) (found bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// Opened before anything is read: should the number go to another
		// process between, the signal reaches nobody.
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if meant(pid) {
			found = unix.PidfdSendSignal(pidfd, sig, nil, 0) == nil || found
		}
		_ = unix.Close(pidfd)
	}
	return found
}

// groupOf returns the number of a process's group, 0 where it cannot be read.
func groupOf(pid int) int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0 // it has ended
	}
	return parseGroup(string(text))
}

// parseGroup reads the group's number from a line of /proc/PID/stat: the name
// of the program stands in brackets and may hold anything, then come the state,
// the parent and the group.
func parseGroup(stat string) int {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 3 {
		return 0
	}
	id, err := strconv.Atoi(fields[2])
	if err != nil || id < 0 {
		return 0
	}
	return id
}

// carries tells whether a process was started with this entry in its
// environment.
func carries(pid int, want string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(bytes.Split(env, []byte{0}), func(entry []byte) bool { return string(entry) == want })
}
