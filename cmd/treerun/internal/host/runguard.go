//go:build linux

package host

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/job"
)

const (
	scanPause  = 5 * time.Millisecond // between two scans
	emptyScans = 3                    // consecutive scans that must have found nothing
)

// RunGuard is the guard, given the arguments after GuardCommand. It returns when the launcher has died, or has been
// silent for too long, after which the guard kills it, and the processes that its ranks have left have been ended.
func RunGuard(args []string) error {
	if len(args) != 2 {
		return errors.New("the guard is started by treerun, not by users")
	}
	p, err := parseJobProcesses(args[1])
	if err != nil {
		return fmt.Errorf("guard: invalid arguments %.80q: %w", args, err)
	}
	// When a user sends a signal to stop to all processes called treerun, the guard ignores it, and the launcher
	// stops its ranks in good order.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	launcher, err := os.FindProcess(p.Launcher)
	if err == nil && unix.Getppid() != p.Launcher {
		err = os.ErrProcessDone // it has died before: its number may have been reused
	}
	if p.waitForSilence(os.Stdin) && err == nil {
		fmt.Fprintf(os.Stderr, "treerun: process %d did nothing for %v (--peer-timeout): it was stopped, and is ended with "+
			"its ranks\n", p.Launcher, p.Silence)
		_ = launcher.Kill()
	}
	awaitEnd(p.Launcher)
	p.end()
	if groups := (&memoryGroups{parent: p.Parent, names: p.Groups, home: p.Home}); p.Parent != "" {
		for deadline := time.Now().Add(LostAfter); !groups.remove() && time.Now().Before(deadline); {
			time.Sleep(scanPause) // what has ended may still be in it
		}
	}
	return nil
}

// awaitEnd waits until this process has lost its parent. Its siblings have lost theirs at the same moment, and those
// with such a parent-death signal have died of it: from then on they start nothing more.
func awaitEnd(parent int) {
	for deadline := time.Now().Add(LostAfter); unix.Getppid() == parent && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// waitForSilence waits until the other end of a pipe is closed, or until no line has come from there for too long, and
// then returns true. A process that was stopped together with this one is not silent: the lines that it has written, or
// writes within a quarter of that time, are read first. A line is empty, or has a rank and its pid.
func (p *jobProcesses) waitForSilence(pipe *os.File) bool {
	const parts = 4
	lines := bufio.NewReader(pipe)
	for missed := 0; missed <= parts; missed++ {
		if p.Silence > 0 {
			_ = pipe.SetReadDeadline(time.Now().Add(p.Silence / parts)) // never fails on a pipe
		}
		line, err := lines.ReadString('\n') // a write of a line is never split
		if err == nil {
			missed = -1
			p.add(line)
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
	}
	return true
}

// add takes in the rank of a line of the launcher.
func (p *jobProcesses) add(line string) {
	var rank, pid int
	if n, _ := fmt.Sscan(line, &rank, &pid); n != 2 {
		return
	}
	if of := job.EnvRank + "=" + strconv.Itoa(rank); !slices.Contains(p.Ranks, of) {
		p.Ranks = append(p.Ranks, of)
	}
	p.openPidfd(pid)
}

// openPidfd keeps a descriptor of a rank, and none of ranks that have ended. The launcher has just started the rank,
// and waits for it at the end, or when an epoch begins without it. So the number refers to its child, which is in its
// session.
func (p *jobProcesses) openPidfd(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != p.Session {
		_ = unix.Close(fd)
		return
	}
	p.pidfds = append(slices.DeleteFunc(p.pidfds, closeEnded), fd)
}

// closeEnded closes the descriptor of a process that has ended, and reports that.
func closeEnded(fd int) bool { return hasEnded(fd) && unix.Close(fd) == nil }

// hasEnded reports whether the process of a descriptor has ended.
func hasEnded(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}

// jobProcesses identifies the processes that the ranks of a launcher have started.
type jobProcesses struct {
	Job      string        // an entry of their environments
	Ranks    []string      // others, of which each has one
	Session  int           // 0: its leader is outside of our PID namespace
	Launcher int           // its process
	Parent   string        // the control group with those of ranks; "": there are none
	Groups   string        // how their names begin
	Home     string        // the control group of the launcher
	Silence  time.Duration // after which the launcher counts as dead; 0: it may be silent

	pidfds []int // descriptors of ranks
}

// parseJobProcesses decodes the launcher's argument for its guard.
func parseJobProcesses(text string) (p jobProcesses, err error) {
	err = json.Unmarshal([]byte(text), &p)
	if err == nil && (p.Launcher <= 0 || p.Silence < 0) {
		err = fmt.Errorf("launcher %d, silence %v", p.Launcher, p.Silence)
	}
	return p, err
}

// end ends all of these processes that are left.
func (p *jobProcesses) end() {
	left := p.signal(unix.SIGTERM)
	p.signal(unix.SIGCONT) // lets stopped ones receive it
	for deadline := time.Now().Add(LeftoverGrace); left && time.Now().Before(deadline); {
		time.Sleep(scanPause)
		left = p.signal(0)
	}
	deadline := time.Now().Add(LostAfter)
	for empty := 0; empty < emptyScans && time.Now().Before(deadline); time.Sleep(scanPause) {
		empty++
		if p.signal(unix.SIGKILL) {
			empty = 0
		}
	}
}

// signal sends sig to all of these processes, and reports whether there are any, or may be.
func (p *jobProcesses) signal(sig syscall.Signal) (left bool) {
	for _, fd := range p.pidfds {
		if !hasEnded(fd) {
			left = unix.PidfdSendSignal(fd, sig, nil, 0) == nil || left
		}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return left
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// Opened before anything is read: should the number be reused meanwhile, the signal reaches no process.
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if ok, unsure := p.matches(pid); ok {
			left = unix.PidfdSendSignal(pidfd, sig, nil, 0) == nil || left
		} else if unsure {
			left = true
		}
		_ = unix.Close(pidfd)
	}
	return left
}

// matches reports whether a process is one of them, by the environment that it was started with. The kernel shows
// none while it begins a program, when it has ended, and where there is none: in between it is unsure, and worth
// another scan.
func (p *jobProcesses) matches(pid int) (ok, unsure bool) {
	if sid, err := unix.Getsid(pid); err != nil || sid != p.Session {
		return false, false
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if errors.Is(err, fs.ErrPermission) {
		return false, false // another user's, or a rank with capabilities, which is known by its number
	}
	if err != nil || len(env) == 0 {
		if state := job.StatProc(pid); !state.Known() || state.Ended() {
			return false, false // it has ended
		}
		return false, true
	}
	entries := strings.Split(string(env), "\x00")
	isRank := func(e string) bool { return slices.Contains(p.Ranks, e) }
	return slices.Contains(entries, p.Job) && slices.ContainsFunc(entries, isRank), false
}
