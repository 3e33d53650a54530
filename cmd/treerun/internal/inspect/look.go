package inspect

import (
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
	Stack     bool // the stacks of all its goroutines are wanted
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
	var closer []*Rank
	for i, t := range targets {
		r := &all[i]
		*r = Rank{Rank: t.Rank, Host: host, PID: t.PID, Gap: t.Gap}
		r.readPage(t.Page)
		r.follow()
		r.Process.read(r.PID)
		state := r.Process.State
		if len(r.Waits) == 0 && !state.Stopped() && !state.Ended() && len(closer) < maxThreads {
			closer = append(closer, r)
		}
	}
	began, before := time.Now(), make([]threads, len(closer))
	for i, r := range closer {
		before[i] = readThreads(r.PID)
	}
	readLines(all, targets, brief)
	if len(closer) == 0 {
		return all, time.Since(start)
	}
	pause := lookFor - min(lookFor, time.Since(began))
	time.Sleep(pause)
	over := time.Since(began)
	for i, r := range closer {
		after := readThreads(r.PID)
		r.Process.between(&before[i], &after, over, r.thread())
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
// stacks that are wanted.
func readLines(all []Rank, targets []Target, brief bool) {
	n := 0
	for _, waits := range []bool{false, true} {
		for i := range all {
			r := &all[i]
			if r.Process.State.Ended() || len(r.Waits) > 0 != waits || brief && waits && !r.Process.State.Stopped() {
				continue
			}
			if n++; n <= maxThreads || targets[i].Stack {
				r.readStacks(targets[i].Stack)
			}
		}
	}
}

// readStacks sets the line of the program that the rank is at, and with all the stacks of its goroutines.
func (r *Rank) readStacks(all bool) {
	reader.Lock()
	defer reader.Unlock()
	s, err := reader.Read(r.PID)
	if err != nil {
		r.NoLine = errors.Unwrap(err).Error()
		return
	}
	switch g, frame := s.Where(); {
	case frame != nil:
		r.Line, r.Thread, r.Callers = frame.String(), g.Thread, s.Callers(g, frame)
	case g != nil && g.OnCPU:
		r.NoLine = "its goroutine runs on a CPU at this moment"
	default:
		r.NoLine = "no goroutine is in code of the program"
	}
	if all {
		r.Stack = s.String()
	}
}
