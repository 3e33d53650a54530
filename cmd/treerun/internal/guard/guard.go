// Package guard ends the process groups of a job's ranks when the launcher has
// died without doing so, as by SIGKILL. The kernel ends the ranks themselves
// then (parent-death signal), but not what they have started: the program under
// a wrapper script, for instance.
//
// A guard is a process of its own: this executable, run again with the argument
// Command. It sleeps in a read from a socket whose other end only the launcher
// has. The end of file there is the launcher's death. A normal end of the
// launcher kills the guard before.
//
// A guard signals nobody but the members of the groups that it was told of,
// although it is not the parent of any process and numbers are used again: it
// holds a pidfd of each rank, which stands for the rank's group as long as that
// has members, even after the rank's end (Linux 6.9). On older kernels it looks
// for processes of the group's number that have the job's id in their
// environment. So it finds what a rank has started of which it has not been told
// yet, too, by the session, the job and the rank: then it waits first until the
// launcher is gone, since until then the rank may still begin.
//
// One look through the processes may miss some: one that is between two programs
// shows no environment, and one that was forked meanwhile is not listed. So the
// guard looks until several looks in a row have found nothing. Only the packages
// below cmd/treerun import it.
package guard

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is the first argument of treerun by which it becomes a guard. Then come
// the job's id, the longest silence of the launcher, and the numbers of the
// launcher's process and session, which the guard could not ask for any more were
// the launcher dead before it begins. Users do not call it, and no PROGRAM has
// such a name without a slash.
const Command = "guard:ranks"

// Is tells whether the arguments after treerun's name make it a guard: see Run.
func Is(args []string) bool { return len(args) == 5 && args[0] == Command }

const (
	socketFD   = 3       // of the guard: its end of the socket
	groupBytes = 4       // a message: the group's number; the pidfd comes with it. 0 is a sign of life, -1-R: see Expect
	sendLimit  = 200_000 // microseconds that the launcher waits for a guard that does not read
)

// Guard is the launcher's hold on its guard. The zero of *Guard, nil, is none;
// its methods do nothing then. One goroutine at a time may use it.
type Guard struct {
	PID    int
	pidfd  int
	socket int
}

// Start starts the guard of a job. The caller, or whoever waits for all
// children, may reap it. With a silence, not 0, the guard also ends the ranks
// when it has not heard of Alive for so long, because we are stopped.
func Start(jobID string, silence time.Duration) (*Guard, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start a guard: %w", os.NewSyscallError("socketpair", err))
	}
	defer unix.Close(fds[1])
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = unix.Close(fds[0])
		return nil, fmt.Errorf("start a guard: %w", err)
	}
	defer null.Close()
	// A guard that is stopped must not stop us.
	_ = unix.SetsockoptTimeval(fds[0], unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: sendLimit})
	g := &Guard{pidfd: -1, socket: fds[0]}
	session, err := unix.Getsid(0)
	if err != nil {
		_ = unix.Close(fds[0])
		return nil, fmt.Errorf("start a guard: %w", os.NewSyscallError("getsid", err))
	}
	args := []string{"treerun", Command, jobID, silence.String(), strconv.Itoa(os.Getpid()), strconv.Itoa(session)}
	// In the process list it is "treerun guard:ranks ID", and its name is not
	// ours, so that killall does not hit both. A session of its own keeps the
	// signals of our terminal from it.
	g.PID, err = syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   append(os.Environ(), "GOMAXPROCS=1"),
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), socketFD: uintptr(fds[1])},
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &g.pidfd},
	})
	if err == nil && g.pidfd < 0 {
		err = unix.ENOSYS // it ends when it sees that the socket is closed
	}
	if err != nil {
		_ = unix.Close(fds[0])
		return nil, fmt.Errorf("start a guard: %w", err)
	}
	return g, nil
}

// Watch gives the process group of a rank, a child that leads it, into the
// guard's care. The pidfd stays the caller's.
func (g *Guard) Watch(pid, pidfd int) error {
	if g == nil {
		return nil
	}
	message := binary.BigEndian.AppendUint32(nil, uint32(pid))
	if err := unix.Sendmsg(g.socket, message, unix.UnixRights(pidfd), nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("give process group %d into the guard's care: %w", pid, os.NewSyscallError("sendmsg", err))
	}
	return nil
}

// Expect tells the guard that the rank is about to be started: should this process
// die before Watch, what the rank has started by then is found by its environment.
func (g *Guard) Expect(rank int) {
	if g != nil {
		message := binary.BigEndian.AppendUint32(nil, uint32(int32(-1-rank)))
		_ = unix.Sendmsg(g.socket, message, nil, nil, unix.MSG_NOSIGNAL)
	}
}

// Alive tells the guard that this process still does something.
func (g *Guard) Alive() {
	if g != nil {
		_ = unix.Sendmsg(g.socket, make([]byte, groupBytes), nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	}
}

// Dismiss ends the guard, and returns when it has ended. Call it once.
func (g *Guard) Dismiss() {
	if g == nil {
		return
	}
	_ = unix.PidfdSendSignal(g.pidfd, unix.SIGKILL, nil, 0) // fails where it has ended
	for {
		if err := unix.Waitid(unix.P_PIDFD, g.pidfd, nil, unix.WEXITED, nil); err != unix.EINTR {
			break // or it has been reaped
		}
	}
	_ = unix.Close(g.pidfd)
	_ = unix.Close(g.socket)
}
