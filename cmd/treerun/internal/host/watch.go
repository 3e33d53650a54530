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
	lookPause = 5 * time.Millisecond // between two scans
	looks     = 3                    // consecutive scans that must have found nothing
)

// RunGuard is the guard, given the arguments after GuardCommand. It returns when the launcher has died, or has been
// silent for too long, after which the guard kills it, and the processes that its ranks have left have been ended.
func RunGuard(args []string) error {
	if len(args) != 2 {
		return errors.New("the guard is what treerun starts itself; it is not for people")
	}
	f, err := parseFamily(args[1])
	if err != nil {
		return fmt.Errorf("guard: %.80q is not what a launcher asks for: %w", args, err)
	}
	// When a user sends a signal to stop to all processes called treerun, the guard ignores it, and the launcher stops its
	// ranks in good order.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	launcher, err := os.FindProcess(f.Launcher)
	if err == nil && unix.Getppid() != f.Launcher {
		err = os.ErrProcessDone // it has died before: its number may have been reused
	}
	if f.silent(os.Stdin) && err == nil {
		_ = launcher.Kill()
	}
	awaitEnd(f.Launcher)
	f.end()
	return nil
}

// awaitEnd waits until this process has lost its parent. Its siblings have lost theirs at the same moment, and those
// with such a parent-death signal have died of it: from then on they start nothing more.
func awaitEnd(parent int) {
	for deadline := time.Now().Add(LostAfter); unix.Getppid() == parent && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// silent waits until the other end of a pipe is closed, or until no line has come from there for too long, and then
// returns true. A process that was stopped together with this one is not silent: the lines that it has written, or
// writes within a quarter of that time, are read first. A line is empty, or the number of a rank.
func (f *family) silent(life *os.File) bool {
	const parts = 4
	lines := bufio.NewReader(life)
	for missed := 0; missed <= parts; missed++ {
		if f.Silence > 0 {
			_ = life.SetReadDeadline(time.Now().Add(f.Silence / parts)) // never fails on a pipe
		}
		line, err := lines.ReadString('\n') // a write of a line is never split
		if err == nil {
			missed = -1
			if pid, err := strconv.Atoi(line[:len(line)-1]); err == nil {
				f.open(pid)
			}
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
	}
	return true
}

// open keeps a descriptor of a rank. The launcher waits for no rank before all have ended, so the number refers to its
// child, which is in its session.
func (f *family) open(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != f.Session {
		_ = unix.Close(fd)
		return
	}
	f.opened = append(f.opened, fd)
}

// family identifies the processes that the ranks of a launcher have started.
type family struct {
	Job      string        // an entry of their environments
	Ranks    []string      // others, of which each has one
	Session  int           // 0: its leader is outside of our PID namespace
	Launcher int           // its process
	Silence  time.Duration // after which the launcher counts as dead; 0: it may be silent

	opened []int // descriptors of ranks
}

// parseFamily decodes the launcher's argument for its guard.
func parseFamily(text string) (f family, err error) {
	err = json.Unmarshal([]byte(text), &f)
	if err == nil && (f.Launcher <= 0 || f.Silence < 0) {
		err = fmt.Errorf("launcher %d, silence %v", f.Launcher, f.Silence)
	}
	return f, err
}

// end ends all processes of the family that are left.
func (f *family) end() {
	left := f.signal(unix.SIGTERM)
	f.signal(unix.SIGCONT) // lets stopped ones receive it
	for deadline := time.Now().Add(LeftoverGrace); left && time.Now().Before(deadline); {
		time.Sleep(lookPause)
		left = f.signal(0)
	}
	deadline := time.Now().Add(LostAfter)
	for none := 0; none < looks && time.Now().Before(deadline); time.Sleep(lookPause) {
		none++
		if f.signal(unix.SIGKILL) {
			none = 0
		}
	}
}

// signal sends sig to all processes of the family, and reports whether there are any, or may be.
func (f *family) signal(sig syscall.Signal) (left bool) {
	for _, fd := range f.opened {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if n == 0 || err != nil { // else it has ended
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
		if has, unsure := f.has(pid); has {
			left = unix.PidfdSendSignal(pidfd, sig, nil, 0) == nil || left
		} else if unsure {
			left = true
		}
		_ = unix.Close(pidfd)
	}
	return left
}

// has reports whether a process is of the family, by the environment that it was started with. The kernel shows none
// while it begins a program, when it has ended, and where there is none: in between it is unsure, and worth another
// scan.
func (f *family) has(pid int) (has, unsure bool) {
	if sid, err := unix.Getsid(pid); err != nil || sid != f.Session {
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
	isRank := func(e string) bool { return slices.Contains(f.Ranks, e) }
	return slices.Contains(entries, f.Job) && slices.ContainsFunc(entries, isRank), false
}
