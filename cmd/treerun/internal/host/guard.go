package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardCommand is the first argument of treerun by which it becomes a guard. Then come
// the job's id, for people, the launcher's process id, and the time after which a silent
// launcher counts as dead, 0 for never. Users do not call it, and no PROGRAM has such a
// name without a slash.
const guardCommand = "guard:ranks"

// IsGuard tells whether the arguments after treerun's name make it a guard: see RunGuard.
func IsGuard(args []string) bool { return len(args) == 4 && args[0] == guardCommand }

// A guard ends what the ranks of a job have started when the launcher has died without
// doing so, as by SIGKILL. The kernel ends the ranks themselves then (parent-death
// signal), but not their children: the program under a wrapper script, for instance.
//
// It is a process of its own: this executable, run again with the argument guardCommand.
// It reads the process groups of the ranks from a pipe whose other end only the launcher
// has. The end of file there is the launcher's death: the guard ends these groups then, as
// the launcher does at the end of a job. Until that, their numbers are the ranks'. A normal
// end of the launcher kills the guard before.
//
// guard is the launcher's hold on its guard. The zero of *guard, nil, is none;
// its methods do nothing then. One goroutine at a time may use it.
type guard struct {
	process *os.Process
	life    int // the writing end of its stdin
}

// newGuard starts the guard of a launcher. The caller, or whoever waits for all
// children, may reap it. With a silence, not 0, the guard also ends the ranks
// when it has been told nothing for so long, because we are stopped.
func newGuard(jobID string, silence time.Duration) (*guard, error) {
	var fds [2]int
	// A guard that is stopped must not stop us.
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, fmt.Errorf("start a guard: %w", os.NewSyscallError("pipe2", err))
	}
	theirs := os.NewFile(uintptr(fds[0]), "pipe")
	defer theirs.Close()
	// In the process list it is "treerun guard:ranks ID", and its name is not
	// ours, so that killall does not hit both. A session of its own keeps the
	// signals of our terminal from it.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"treerun", guardCommand, jobID, strconv.Itoa(os.Getpid()), silence.String()}
	cmd.Dir, cmd.Stdin = "/", theirs
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = unix.Close(fds[1])
		return nil, fmt.Errorf("start a guard: %w", err)
	}
	return &guard{process: cmd.Process, life: fds[1]}, nil
}

// tell names a process group to the guard; 0: this process still does something.
func (g *guard) tell(group int) {
	if g != nil {
		_, _ = unix.Write(g.life, binary.NativeEndian.AppendUint32(nil, uint32(group)))
	}
}

// dismiss ends the guard, and returns when it has ended. Call it once.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	_ = g.process.Kill() // fails where it has ended
	_, _ = g.process.Wait()
	_ = unix.Close(g.life)
}

// RunGuard is the guard, given the arguments after treerun's name, for which IsGuard holds.
// It returns when the launcher has died, or has been silent for too long, which
// kills it, and what its ranks have left has been ended.
func RunGuard(args []string) error {
	launcher, err := strconv.Atoi(args[2])
	silence, badTime := time.ParseDuration(args[3])
	if err = errors.Join(err, badTime); err != nil || launcher <= 1 || silence < 0 {
		return fmt.Errorf("guard: %.80q is not what a launcher asks for", args)
	}
	// Who stops all processes called treerun shall have the launcher stop its
	// ranks in good order meanwhile.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	groups, silent := listen(os.Stdin, silence)
	if silent && unix.Getppid() == launcher { // it lives: its number is its own
		_ = unix.Kill(launcher, unix.SIGKILL)
	}
	endGroups(groups)
	return nil
}

// maxPID is the largest number that Linux gives to a process.
const maxPID = 1 << 22

// listen takes the numbers of process groups until the other end of a pipe is closed, or,
// which makes it true, nothing has come from there for too long. A process that was stopped
// with us is not silent: what it has said, or says within a quarter of that time, is heard first.
func listen(life *os.File, silence time.Duration) (groups []int, silent bool) {
	const parts = 4
	var said [4]byte
	for missed := 0; missed <= parts; missed++ {
		if silence > 0 {
			_ = life.SetReadDeadline(time.Now().Add(silence / parts)) // never fails on a pipe
		}
		_, err := io.ReadFull(life, said[:])
		switch {
		case err == nil:
			missed = -1
			if n := binary.NativeEndian.Uint32(said[:]); n > 1 && n <= maxPID {
				groups = append(groups, int(n))
			}
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return groups, false
		}
	}
	return groups, true
}

// endGroups ends process groups. One that was seen to have ended is not touched again: its
// number may go to others.
func endGroups(groups []int) {
	signal := func(sig syscall.Signal) (left bool) {
		groups = slices.DeleteFunc(groups, func(g int) bool { return unix.Kill(-g, sig) != nil })
		return len(groups) > 0
	}
	const pause = 5 * time.Millisecond
	signal(unix.SIGTERM)
	signal(unix.SIGCONT) // lets stopped ones hear it
	for deadline := time.Now().Add(LeftoverGrace); signal(0) && time.Now().Before(deadline); {
		time.Sleep(pause)
	}
	for deadline := time.Now().Add(LostAfter); signal(unix.SIGKILL) && time.Now().Before(deadline); {
		time.Sleep(pause)
	}
}
