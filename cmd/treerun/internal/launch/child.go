package launch

import (
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/rank/job"
)

// child is one rank.
type child struct {
	rank, pid int
	out, err  *output.Stream
	control   *link
	file      *os.File // its job file

	silent         bool // no more messages will come from it
	joined, closed bool // as it has told
	stopped        bool // we have told it to stop
	end            *End // nil while it runs; set when it has been waited for
}

// close closes what we hold of a rank that has ended; the streams close
// themselves.
func (c *child) close() {
	if c.control != nil {
		c.control.close()
	}
	if c.file != nil {
		_ = c.file.Close()
	}
}

// discard closes what we hold of a rank that was never started.
func (c *child) discard() {
	c.close()
	if c.out != nil {
		c.out.Discard()
	}
	if c.err != nil {
		c.err.Discard()
	}
}

// readJobFile tells whether the rank has read its job file: whether it uses
// package rank. The file's offset is shared with it.
func (c *child) readJobFile() bool {
	at, err := c.file.Seek(0, io.SeekCurrent)
	return err == nil && at > 0
}

// reap waits for all children that have ended.
func (s *supervisor) reap() {
	s.order++
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid == 0 {
			return
		}
		if c := s.byPID[pid]; c != nil && c.end == nil { // else it was an orphan of a rank
			s.ended(c, status)
		}
	}
}

// ended notes that a rank has ended.
func (s *supervisor) ended(c *child, status unix.WaitStatus) {
	c.end = &End{Rank: c.rank, PID: c.pid, Order: s.order, After: time.Since(s.start), Stopped: c.stopped}
	if status.Signaled() {
		c.end.Signal = status.Signal()
	} else {
		c.end.Code = status.ExitStatus()
	}
	s.running--
	s.job.Trace("rank %d (pid %d) %s", c.rank, c.pid, c.end.how())
	if c.end.failed() && !c.stopped {
		s.begin(cause{kind: byFailure})
	}
	if c.silent {
		s.announce(c)
	} else {
		c.control.finish()
	}
}

// receive acts on what a rank has told.
func (s *supervisor) receive(e event) {
	c, m := s.children[e.rank], e.message
	switch {
	case m == nil:
		c.silent = true
		s.talking--
		if c.end != nil {
			s.announce(c)
		}
	case m.Kind == job.Seed && e.rank == 0 && !s.seeded:
		s.seeded = true
		s.job.Trace("rank 0 listens on %s", m.Text)
		for _, c := range s.children {
			c.control.send(&job.Message{Kind: job.SeedIs, Text: m.Text})
		}
	case m.Kind == job.Joined && !c.joined:
		c.joined = true
		if s.joined++; s.joined == s.job.Size {
			s.job.Trace("all ranks have joined")
		}
	case m.Kind == job.Closing:
		c.closed = true
	}
}

// announce tells all other ranks that c has ended. All that c had to say has
// been heard.
func (s *supervisor) announce(c *child) {
	c.end.Joined, c.end.Closed = c.joined, c.closed
	m := &job.Message{
		Kind: job.Exited, Rank: c.rank, PID: c.pid, Code: c.end.Code, Signal: int(c.end.Signal), Closed: c.closed,
		Text: c.end.how(),
	}
	for _, other := range s.children {
		if other.end == nil {
			other.control.send(m)
		}
	}
}
