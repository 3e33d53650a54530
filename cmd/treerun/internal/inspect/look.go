//go:build linux

package inspect

import (
	"cmp"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/stacks"
)

// Target is a rank that runs on this host.
type Target struct {
	Rank, PID int
	Page      io.ReaderAt // its status page
	Gap       time.Duration
	Debugged  bool          // its process runs the program under a debugger
	Show      func() string // has the rank print its stacks; "": it does not. Nil: it cannot
	Stack     bool          // the stacks of all its goroutines are wanted
}

// How long a look takes at the threads of processes that do not wait for others, and of how many; and the number of
// ranks of which it reads the stacks.
const (
	lookFor    = 50 * time.Millisecond
	maxThreads = 64
)

// Look looks at the ranks of this host, and returns the time that the look took without pauses. A brief one has no
// lines of ranks that wait.
func Look(host string, targets []Target, brief bool) ([]Rank, time.Duration) {
	all, start := make([]Rank, len(targets)), time.Now()
	var closer []int // indices
	for i, t := range targets {
		r := &all[i]
		*r = Rank{Rank: t.Rank, Host: host, PID: t.PID, Gap: t.Gap}
		r.readPage(t.Page)
		if r.Debugged = t.Debugged; r.Debugged {
			r.PID = cmp.Or(Tracee(r.PID), r.PID)
		} else {
			r.follow()
		}
		r.Process.read(r.PID)
		state := r.Process.State
		if len(r.Waits) == 0 && !state.Stopped() && !state.Ended() && len(closer) < maxThreads {
			closer = append(closer, i)
		}
	}
	began, before := time.Now(), make([]threads, len(closer))
	for k, i := range closer {
		before[k] = readThreads(all[i].PID)
	}
	onCPU := readLines(all, targets, brief)
	if len(closer) == 0 {
		return all, time.Since(start)
	}
	read := time.Now()
	showStacks(all, targets, onCPU)
	time.Sleep(lookFor - min(lookFor, time.Since(began)))
	pause, over := time.Since(read), time.Since(began)
	for k, i := range closer {
		r := &all[i]
		_, runs := onCPU[i]
		after := readThreads(r.PID)
		r.Process.between(&before[k], &after, over, r.thread(), runs)
	}
	return all, time.Since(start) - pause
}

// reader reads stacks: files of programs once, for all looks of this process.
var reader struct {
	sync.Mutex
	stacks.Reader
}

// follow takes the process that has called rank.Init for that of the rank: the one that treerun has started may be a
// wrapper of it. It is in the process group of that one, else it is not the rank's.
func (r *Rank) follow() {
	if r.Page == nil || r.Page.PID == r.PID {
		return
	}
	if group, err := unix.Getpgid(r.Page.PID); err == nil && group == r.PID {
		r.PID = r.Page.PID
	}
}

// thread returns the folder of the thread that the rank's goroutine is on: "" if it is on none, and that of the first
// thread if the goroutine is not known.
func (r *Rank) thread() string {
	switch {
	case r.Line == "":
		return procFile(r.PID, "task/") + strconv.Itoa(r.PID)
	case r.Thread == 0:
		return ""
	}
	return procFile(r.PID, "task/") + strconv.Itoa(r.Thread)
}

// readLines reads the lines of the ranks that do not wait for others, and of others up to maxThreads in all; and the
// stacks that are wanted. It returns the stacks of ranks that do not wait, and whose goroutine runs on a CPU.
func readLines(all []Rank, targets []Target, brief bool) map[int]stacks.Stacks {
	n, onCPU := 0, make(map[int]stacks.Stacks)
	for _, waits := range []bool{false, true} {
		for i := range all {
			r := &all[i]
			if r.Process.State.Ended() || len(r.Waits) > 0 != waits || brief && waits && !r.Process.State.Stopped() {
				continue
			}
			if n++; n <= maxThreads || targets[i].Stack {
				if s, runs := r.readStacks(targets[i].Stack); runs && !waits {
					onCPU[i] = s
				}
			}
		}
	}
	return onCPU
}

// showStacks sets the lines of ranks whose goroutine runs on a CPU: they print their stacks.
func showStacks(all []Rank, targets []Target, onCPU map[int]stacks.Stacks) {
	var shown sync.WaitGroup
	for i, s := range onCPU {
		if targets[i].Show == nil {
			continue
		}
		shown.Go(func() {
			r := &all[i]
			text := targets[i].Show()
			s = s.Parse(text)
			if g, frame := s.Where(); frame != nil {
				r.Line, r.NoLine, r.Callers = frame.String(), "", s.Callers(g, frame)
			} else if text == "" {
				r.NoLine += ", and it does not answer"
			}
			if targets[i].Stack && text != "" {
				r.Stack = s.String()
			}
		})
	}
	shown.Wait()
}

// readStacks sets the line of the program that the rank is at, and with all the stacks of its goroutines. It reports
// whether that goroutine runs on a CPU, and has no line.
func (r *Rank) readStacks(all bool) (s stacks.Stacks, runs bool) {
	reader.Lock()
	defer reader.Unlock()
	s, err := reader.Read(r.PID)
	if err != nil {
		r.NoLine = errors.Unwrap(err).Error()
		return s, false
	}
	switch g, frame := s.Where(); {
	case frame != nil:
		r.Line, r.Thread, r.Callers = frame.String(), g.Thread, s.Callers(g, frame)
	case g != nil && g.OnCPU:
		r.NoLine, runs = "its goroutine runs on a CPU at this moment", true
	default:
		r.NoLine = "no goroutine is in code of the program"
	}
	if all {
		r.Stack = s.String()
	}
	return s, runs
}
