package guard

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/procstate"
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

// answer says whether a process is meant.
type answer int

const (
	no answer = iota
	yes
	unsure // it is between two programs, or ending: look again
)

// signalByNumber sends sig to the processes in groups of these numbers that
// have the job's id in their environment, and tells whether there are any, or
// may be. A member that has cleared its environment is not found; somebody
// else's process never is.
func signalByNumber(groups []group, jobID string, sig syscall.Signal) (left bool) {
	return signalThose(sig, func(pid int) answer {
		id := procstate.Stat(pid).Group
		if !slices.ContainsFunc(groups, func(g group) bool { return g.id == id }) {
			return no
		}
		return carries(pid, job.EnvJobID+"="+jobID)
	})
}

// signalRank sends sig to the processes of a session that have the job's id and
// the rank in their environment, and tells whether there are any, or may be.
func signalRank(rank, session int, jobID string, sig syscall.Signal) (left bool) {
	return signalThose(sig, func(pid int) answer {
		if sid, err := unix.Getsid(pid); err != nil || sid != session {
			return no
		}
		return carries(pid, job.EnvJobID+"="+jobID, job.EnvRank+"="+strconv.Itoa(rank))
	})
}

// signalThose sends sig to all processes that are meant, and tells whether there
// are any, or may be.
func signalThose(sig syscall.Signal, meant func(pid int) answer) (left bool) {
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
		switch meant(pid) {
		case yes:
			left = unix.PidfdSendSignal(pidfd, sig, nil, 0) == nil || left
		case unsure:
			left = true
		}
		_ = unix.Close(pidfd)
	}
	return left
}

// carries tells whether a process was started with these entries in its
// environment. The kernel shows none while it begins a program, when it has
// ended, and where there is none.
func carries(pid int, want ...string) answer {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if errors.Is(err, fs.ErrPermission) {
		return no // nor could it be signalled
	}
	if err != nil || len(env) == 0 {
		if state := procstate.Stat(pid); !state.Known() || state.Ended() {
			return no // it has ended
		}
		return unsure
	}
	entries := strings.Split(string(env), "\x00")
	for _, w := range want {
		if !slices.Contains(entries, w) {
			return no
		}
	}
	return yes
}
