//go:build linux

package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Pipe reads the output of a rank from a pipe or a stream socket, and can stop without losing data: Finish makes it
// return all data present at that moment and then the end, even when a process still holds the other side open. Read is
// for one goroutine; any goroutine may call the others. No method blocks an operating system thread.
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
