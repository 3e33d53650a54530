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
	control   *link
	file      *os.File // its job file

	stopped bool // it has been told to stop
	ended   bool
	held    bool // its number stays its own until all ranks of the host have ended
	reaped  bool // it has been waited for

	joined   bool          // its world is complete
	state    job.ProcState // when it was looked at last
	reported bool          // that it does not get on
}

// close closes what we hold of a rank that has ended, but its streams.
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

// signal sends sig to the rank's process group if there is one. The rank's pid
// is the group's number; it belongs to the rank until the rank is waited for,
// and after that as long as a child of ours is in the group. Only the goroutine
// that waits for children may call it.
func (c *child) signal(sig unix.Signal) {
	if !c.reaped || c.groupLives() {
		_ = unix.Kill(-c.pid, sig) // EPERM: a rank that changed its user is beyond us
	}
}

// groupLives tells whether the process group of a reaped rank still has a
// process in it. Orphans of a rank are our children (we are the subreaper).
func (c *child) groupLives() bool {
	return unix.Waitid(unix.P_PGID, c.pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == nil
}
