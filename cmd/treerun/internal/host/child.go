package host

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// child is one rank.
type child struct {
	rank, pid int
	streams   [wire.Streams]*Pipe // closed by whom they were given to
	file      *os.File            // its job file
	control   *Pipe               // our end of its control socket
	// out gets messages for it: at most one per rank of the job, and one more. A rank that
	// never reads keeps the goroutine waiting, until close.
	out wire.Queue[*job.Message]

	stopped bool // it has been told to stop
	ended   bool
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

// receive passes the rank's messages on until there are no more, or one is
// broken: then the rank is not listened to any more.
func (c *child) receive(h *Host) {
	for {
		m, err := job.ReadMessage(c.control)
		if err != nil {
			h.k.Do(func() { h.silent(c) })
			return
		}
		h.k.Do(func() { h.cfg.Report(&wire.RankMessage{Rank: c.rank, Message: m}) })
	}
}

// close closes what we hold of a rank that has ended, but its streams.
func (c *child) close() {
	if c.control != nil {
		_ = c.control.Close()
	}
	if c.file != nil {
		_ = c.file.Close()
	}
}

// discard closes what we hold of a rank that was never started.
func (c *child) discard() {
	c.close()
	for _, s := range c.streams {
		if s != nil {
			_ = s.Close()
		}
	}
}

// readJobFile tells whether the rank has read its job file: whether it uses
// package rank. The file's offset is shared with it.
func (c *child) readJobFile() bool {
	at, err := c.file.Seek(0, io.SeekCurrent)
	return err == nil && at > 0
}

// groupLives tells whether the process group of a reaped rank still has a
// process in it. Orphans of a rank are our children (we are the subreaper).
func (c *child) groupLives() bool {
	return unix.Waitid(unix.P_PGID, c.pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == nil
}
