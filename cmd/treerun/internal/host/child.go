//go:build linux

package host

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// child is one rank.
type child struct {
	rank, pid int
	attempt   int       // number of processes that the rank had before
	news      uint32    // number of news that were published
	streams   []*Pipe   // closed by their readers
	dir       string    // its folder at its start
	began     time.Time // its start
	file      *os.File  // its job file
	events    int       // the size of the recording in that file; 0: there is none
	control   *Pipe     // this process's end of its control socket
	// out carries messages to it: at most one per rank of the job, and one more. A rank that
	// never reads keeps the goroutine waiting, until close.
	out wire.Queue[*job.Message]

	stacks chan string // its answers to Show, one at a time
	asked  atomic.Bool // for one that has not come

	stopSent      bool // it has been sent a signal to stop
	ended         bool
	killedFor     string        // why treerun has killed it and no other rank; "": it has not
	watched       bool          // deaths waits for its end
	memory        string        // the folder of its control group; "": it has none of its own
	groups        *memoryGroups // that group is one of these
	debugged      bool          // its process runs the program under a debugger
	controlEnded  bool          // no more messages will come from it
	leftGroup     bool          // it has left its process group, and this was reported
	signalErr     error         // of the latest signal to it
	dyingChecks   int           // number of checks that found its mark before it had ended
	stoppedChecks int           // number of consecutive checks that found it stopped
	state         job.ProcState
	history       inspect.History
}

// openControl opens the control socket and appends the rank's end to theirs.
func (c *child) openControl(theirs *[]int) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	*theirs = append(*theirs, fds[1])
	if c.control, err = NewPipe(fds[0], "control socket"); err != nil {
		return err
	}
	broken := false // the rank has closed its end
	c.out.Begin(func(queue []*job.Message) {
		for _, m := range queue {
			broken = broken || job.WriteMessage(c.control.File(), m) != nil
		}
	})
	return nil
}

// receive passes on the rank's messages until there are no more, or one is invalid: later messages of the rank are not
// read. The report that the rank is dying follows all that it has written: it may have closed its world.
func (c *child) receive(h *Host) {
	for {
		m, err := job.ReadMessage(c.control)
		if errors.Is(err, os.ErrDeadlineExceeded) { // of checkDying: it has no other
			_ = c.control.SetReadDeadline(time.Time{})
			m, err = &job.Message{Kind: job.Dying, Rank: c.rank, PID: c.pid}, nil
		}
		if err != nil {
			h.reaper.Do(func() { h.onControlClosed(c, err) })
			return
		}
		if m.Kind == job.Stacks {
			if c.asked.CompareAndSwap(true, false) {
				select {
				case c.stacks <- m.Text:
				default: // an earlier answer is there
				}
			}
			continue
		}
		h.reaper.Do(func() {
			if h.deaths != nil && !c.watched {
				c.watched = h.deaths.add(c)
			}
			h.cfg.Report(&wire.RankMessage{Rank: c.rank, Attempt: c.attempt, Message: m})
		})
	}
}

// close closes the files of a rank that has ended, except its streams, and a file with a recording.
func (c *child) close() {
	if c.control != nil {
		_ = c.control.Close()
	}
	if c.file != nil && c.events == 0 {
		_ = c.file.Close()
	}
	if c.memory != "" {
		c.groups.drop(c.memory)
	}
}

// discard closes all files of a rank that was never started.
func (c *child) discard() {
	c.close()
	for _, s := range c.streams {
		_ = s.Close()
	}
}

// readJobFile reports whether the rank has read its job file: whether it uses package rank. The file's offset is shared
// with it.
func (c *child) readJobFile() bool {
	at, err := c.file.Seek(0, io.SeekCurrent)
	return err == nil && at > 0
}

// publish writes news into the memory that the rank reads while it polls, if it has opened that.
func (c *child) publish(m *job.Message) {
	if pid, _ := c.mark(); pid != c.pid {
		return
	}
	at := job.NewsAt + job.NewsBytes*int64(c.news%job.NewsRing)
	c.news++
	if _, err := c.file.WriteAt(job.AppendNews(nil, m, c.news), at); err == nil { // else the message will do
		_, _ = c.file.WriteAt(binary.NativeEndian.AppendUint32(nil, c.news), job.NewsCountAt)
	}
}

// mark returns the mark that the rank has left in its job file, and the process that it belongs to, 0 for none.
func (c *child) mark() (pid int, word uint32) {
	var b [job.MarkBytes]byte
	if _, err := c.file.ReadAt(b[:], job.MarkAt); err != nil {
		return 0, 0
	}
	return int(binary.NativeEndian.Uint32(b[4:])), binary.NativeEndian.Uint32(b[:])
}

// isDying reports whether the rank's process has begun to end: see job.MarkAt. The end of a child of that process does
// not count.
func (c *child) isDying() bool {
	pid, word := c.mark()
	return word&job.MarkDied != 0 && pid == c.pid
}

// groupLives reports whether the process group of a reaped rank still has a process in it. Orphans of a rank are our
// children (we are the subreaper).
func (c *child) groupLives() bool {
	return unix.Waitid(unix.P_PGID, c.pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == nil
}
