//go:build linux

package host

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/job"
)

// GuardCommand is the first argument of treerun with which it becomes a guard: see RunGuard. It is followed by the
// job's id, for users to read, and jobProcesses as JSON. Users do not call it, and no PROGRAM has such a name without a
// slash.
const GuardCommand = "guard:ranks"

// A guard ends the processes that the ranks of a job have started when the launcher has died without doing so, as by
// SIGKILL. The kernel ends the ranks themselves then (parent-death signal), but not their children: the program under a
// wrapper script, for instance.
//
// It is a process of its own: this executable, run again with the argument GuardCommand. It reads from a pipe whose
// other end only the launcher has. The end of file there is the launcher's death. A normal end of the launcher kills
// the guard first.
//
// Then it scans for the processes of the launcher's session that have the job's id and one of the launcher's ranks in
// their environment. It signals only these and the ranks, of which it has pidfds: a process that began a session of its
// own, or cleared its environment, keeps running. It first waits for the end of the launcher, since until then a rank
// may still begin. One scan of the processes may miss some: one that is between two programs shows no environment, and
// one that was forked meanwhile is not listed. So the guard scans until several consecutive scans have found nothing.
//
// guard is the launcher's handle of its guard. The nil *guard stands for no guard; its methods do nothing then. It is
// not for concurrent use.
type guard struct {
	process *os.Process
	pipe    int // the writing end of its stdin
}

// newGuard starts the guard of a launcher's ranks. The caller, or the process's reaper of all children, may reap it.
// With a silence, not 0, the guard also ends the ranks when it has received no call of alive for that time, because
// this process is stopped.
func newGuard(jobID string, ranks []int, silence time.Duration, groups *memoryGroups) (*guard, error) {
	p := jobProcesses{Job: job.EnvJobID + "=" + jobID, Launcher: os.Getpid(), Silence: silence}
	for _, r := range ranks {
		p.Ranks = append(p.Ranks, job.EnvRank+"="+strconv.Itoa(r))
	}
	var err error
	if groups != nil {
		p.Parent, p.Groups, p.Home = groups.parent, groups.names, groups.home
	}
	if p.Session, err = unix.Getsid(0); err != nil {
		return nil, fmt.Errorf("start a guard: %w", os.NewSyscallError("getsid", err))
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("start a guard: %w", err)
	}
	var fds [2]int
	// A guard that is stopped must not stop the launcher.
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, fmt.Errorf("start a guard: %w", os.NewSyscallError("pipe2", err))
	}
	stdin := os.NewFile(uintptr(fds[0]), "pipe")
	defer stdin.Close()
	// In the process list it is "treerun guard:ranks ID", and its name is not
	// ours, so that killall does not end both. A session of its own keeps the
	// signals of our terminal from it.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"treerun", GuardCommand, jobID, string(text)}
	cmd.Dir, cmd.Stdin = "/", stdin
	if silence > 0 {
		cmd.Stderr = os.Stderr
	}
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = unix.Close(fds[1])
		return nil, fmt.Errorf("start a guard: %w", err)
	}
	return &guard{process: cmd.Process, pipe: fds[1]}, nil
}

// alive shows the guard that this process still works.
func (g *guard) alive() {
	if g != nil {
		_, _ = unix.Write(g.pipe, []byte("\n"))
	}
}

// watch passes a rank and its pid to the guard, which ends that rank, too, where the kernel does not, as a program with
// capabilities has no parent-death signal. The rank may be one that was added to the job.
func (g *guard) watch(rank, pid int) {
	if g != nil {
		_, _ = unix.Write(g.pipe, fmt.Appendln(nil, rank, pid))
	}
}

// dismiss ends the guard, which has not been waited for, and returns when it has ended. Call it once.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	// Where the system allows neither call, it ends after this process, and finds nothing to end.
	if g.process.Kill() == nil || unix.Kill(g.process.Pid, unix.SIGKILL) == nil {
		_, _ = g.process.Wait()
	}
	_ = unix.Close(g.pipe)
}

const (
	guardPause = 20 * time.Millisecond // before another guard is started
	maxGuards  = 100                   // of a job: after that many they are unwanted
)

// startGuard starts the guard of the job, and another one when it has ended before this process: a kill of first the
// guard and then this process must leave no process behind. A kill of both at once leaves the processes that ranks have
// started, but not the ranks.
func (h *Host) startGuard() {
	h.guards++
	g, err := newGuard(h.job.File.JobID, h.ranks, h.cfg.GuardTimeout, h.memory)
	if err != nil {
		h.cfg.Trace("no guard: processes that ranks start will outlive a SIGKILL of treerun: %v", err)
		return
	}
	h.guard = g
	for _, c := range h.children {
		if !c.ended {
			g.watch(c.rank, c.pid)
		}
	}
	h.reaper.OnExit(g.process.Pid, func(unix.WaitStatus) { h.onGuardEnded() })
}

// onGuardEnded replaces a guard, unless its end was due.
func (h *Host) onGuardEnded() {
	if h.done || h.guards == maxGuards {
		return
	}
	_ = h.guard.process.Release()
	_ = unix.Close(h.guard.pipe)
	h.guard = nil
	h.cfg.Trace("the guard has ended: starting another one")
	h.after(guardPause, h.startGuard)
}
