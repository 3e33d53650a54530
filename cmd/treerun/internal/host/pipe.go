package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// Pipe reads the output of a rank from a pipe or a stream socket, and can stop without losing data: Finish makes it
// return all data present at that moment and then the end, even when a process still holds the other side open. Read
// and SetReadDeadline are for one goroutine; any goroutine may call Finish. No method blocks an operating system
// thread.
type Pipe struct {
	file    *os.File
	conn    syscall.RawConn
	finish  atomic.Bool
	drained int // bytes that were read after finish
}

// maxPipe is the capacity of a pipe at most, unless root has made it larger. No more is read after Finish: a process
// that keeps writing must not hold up the reader.
const maxPipe = 1 << 20

// NewPipe takes ownership of fd, a pipe or a stream socket, and makes it
// non-blocking.
func NewPipe(fd int, name string) (*Pipe, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", name, err), file.Close())
	}
	return &Pipe{file: file, conn: conn}, nil
}

// File returns the descriptor as a file, for writing to a socket. It remains the Pipe's: Close closes it.
func (r *Pipe) File() *os.File { return r.file }

// Close closes the descriptor. A Read that is waiting returns.
func (r *Pipe) Close() error { return r.file.Close() }

// Finish makes the reader return the data written until now, then io.EOF. The caller must know that the other side has
// written all it should.
func (r *Pipe) Finish() {
	r.finish.Store(true)
	_ = r.file.SetReadDeadline(time.Unix(1, 0)) // fails on a closed file only: no one reads
}

// SetReadDeadline sets when a Read returns without data; the zero time means never.
func (r *Pipe) SetReadDeadline(t time.Time) error { return r.file.SetReadDeadline(t) }

// Read waits for bytes; it returns io.EOF when all writers have closed, or after Finish, and os.ErrDeadlineExceeded
// when no data has come by the deadline. Data that is present when the deadline has passed is still read.
func (r *Pipe) Read(p []byte) (int, error) {
	// Finish may have come before SetReadDeadline, which undid its own; then its mark is seen here.
	if !r.finish.Load() {
		n, err := r.file.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
	if !r.finish.Load() {
		return r.readNow(p, os.ErrDeadlineExceeded)
	}
	if r.drained >= maxPipe {
		return 0, io.EOF
	}
	n, err := r.readNow(p, io.EOF)
	r.drained += n
	return n, err
}

// readNow reads without waiting and without regard to the deadline; without data it returns the error none.
func (r *Pipe) readNow(p []byte, none error) (n int, err error) {
	ctl := r.conn.Control(func(fd uintptr) {
		for {
			if n, err = unix.Read(int(fd), p); err != unix.EINTR {
				return
			}
		}
	})
	switch {
	case ctl != nil:
		return 0, ctl
	case err == unix.EAGAIN:
		return 0, none
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// child is one rank.
type child struct {
	rank, pid int
	streams   [wire.Streams]*Pipe // closed by their readers
	file      *os.File            // its job file
	control   *Pipe               // this process's end of its control socket
	// out gets messages for it: at most one per rank of the job, and one more. A rank that
	// never reads keeps the goroutine waiting, until close.
	out wire.Queue[*job.Message]

	stopped bool // it has been sent a signal to stop
	ended   bool
	left    bool  // it has left its process group, and this was reported
	deaf    error // of the latest signal to it
	dying   int   // number of looks that saw its mark before it had ended
	halted  int   // number of consecutive looks that saw it stopped
	state   job.ProcState
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
// read.
func (c *child) receive(h *Host) {
	for {
		m, err := job.ReadMessage(c.control)
		if err != nil {
			h.k.Do(func() { h.deafTo(c, err) })
			return
		}
		h.k.Do(func() { h.cfg.Report(&wire.RankMessage{Rank: c.rank, Message: m}) })
	}
}

// close closes the files of a rank that has ended, except its streams.
func (c *child) close() {
	if c.control != nil {
		_ = c.control.Close()
	}
	if c.file != nil {
		_ = c.file.Close()
	}
}

// discard closes all files of a rank that was never started.
func (c *child) discard() {
	c.close()
	for _, s := range c.streams {
		if s != nil {
			_ = s.Close()
		}
	}
}

// readJobFile reports whether the rank has read its job file: whether it uses package rank. The file's offset is shared
// with it.
func (c *child) readJobFile() bool {
	at, err := c.file.Seek(0, io.SeekCurrent)
	return err == nil && at > 0
}

// marked reports whether the rank's process has begun to end: see job.MarkAt. The end of a child of that process does
// not count.
func (c *child) marked() bool {
	var b [job.MarkBytes]byte
	_, err := c.file.ReadAt(b[:], job.MarkAt)
	word, pid := binary.NativeEndian.Uint32(b[:]), binary.NativeEndian.Uint32(b[4:])
	return err == nil && word&job.MarkDied != 0 && int(pid) == c.pid
}

// groupLives reports whether the process group of a reaped rank still has a process in it. Orphans of a rank are our
// children (we are the subreaper).
func (c *child) groupLives() bool {
	return unix.Waitid(unix.P_PGID, c.pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == nil
}
