// Package guard ends what the ranks of a job have started when the launcher has died
// without doing so, as by SIGKILL. The kernel ends the ranks themselves then
// (parent-death signal), but not their children: the program under a wrapper script,
// for instance.
//
// A guard is a process of its own: this executable, run again with the argument
// Command. It reads from a pipe whose other end only the launcher has. The end of file
// there is the launcher's death. A normal end of the launcher kills the guard before.
//
// Then it looks for the processes of the launcher's session that have the job's id and
// one of the launcher's ranks in their environment, and signals no other: a process that
// began a session of its own, or cleared its environment, goes on. It first waits until
// the launcher is gone, since until then a rank may still begin. One look through the
// processes may miss some: one that is between two programs shows no environment, and
// one that was forked meanwhile is not listed. So the guard looks until several looks in
// a row have found nothing. Only the packages below cmd/treerun import it.
package guard

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is the first argument of treerun by which it becomes a guard. Then come
// the job's id, the longest silence of the launcher, the numbers of the launcher's
// process and session, which the guard could not ask for any more were the launcher dead
// before it begins, and the launcher's ranks. Users do not call it, and no PROGRAM has
// such a name without a slash.
const Command = "guard:ranks"

// Is tells whether the arguments after treerun's name make it a guard: see Run.
func Is(args []string) bool { return len(args) == 6 && args[0] == Command }

// Guard is the launcher's hold on its guard. The zero of *Guard, nil, is none;
// its methods do nothing then. One goroutine at a time may use it.
type Guard struct {
	process *os.Process
	life    int // the writing end of its stdin
}

// Start starts the guard of a launcher's ranks. The caller, or whoever waits for all
// children, may reap it. With a silence, not 0, the guard also ends the ranks
// when it has not heard of Alive for so long, because we are stopped.
func Start(jobID string, ranks []int, silence time.Duration) (*Guard, error) {
	var fds [2]int
	// A guard that is stopped must not stop us.
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, fmt.Errorf("start a guard: %w", os.NewSyscallError("pipe2", err))
	}
	theirs := os.NewFile(uintptr(fds[0]), "pipe")
	defer theirs.Close()
	g := &Guard{life: fds[1]}
	if err := g.start(theirs, jobID, ranks, silence); err != nil {
		_ = unix.Close(g.life)
		return nil, fmt.Errorf("start a guard: %w", err)
	}
	return g, nil
}

func (g *Guard) start(stdin *os.File, jobID string, ranks []int, silence time.Duration) error {
	session, err := unix.Getsid(0)
	if err != nil {
		return os.NewSyscallError("getsid", err)
	}
	list, err := json.Marshal(ranks)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	args := []string{"treerun", Command, jobID, silence.String(), strconv.Itoa(os.Getpid()), strconv.Itoa(session),
		string(list)}
	// In the process list it is "treerun guard:ranks ID", and its name is not
	// ours, so that killall does not hit both. A session of its own keeps the
	// signals of our terminal from it.
	g.process, err = os.StartProcess("/proc/self/exe", args, &os.ProcAttr{
		Dir:   "/",
		Env:   append(os.Environ(), "GOMAXPROCS=1"),
		Files: []*os.File{stdin, null, null},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	return err
}

// PID returns the number of the guard's process.
func (g *Guard) PID() int { return g.process.Pid }

// Alive tells the guard that this process still does something.
func (g *Guard) Alive() {
	if g != nil {
		_, _ = unix.Write(g.life, []byte{0})
	}
}

// Dismiss ends the guard, and returns when it has ended. Call it once.
func (g *Guard) Dismiss() {
	if g == nil {
		return
	}
	_ = g.process.Kill() // fails where it has ended
	_, _ = g.process.Wait()
	_ = unix.Close(g.life)
}
