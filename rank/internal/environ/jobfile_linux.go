package environ

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/treerun/treerun/internal/job"
)

// inherit takes over the job file whose descriptor number is in text, and the control socket that it names. Children of
// this process inherit neither.
func inherit(text string) (*Job, error) {
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%.40q, want the number of a descriptor", job.EnvFD, text)
	}
	j, err := readJobFile(fd)
	if err != nil {
		return nil, fmt.Errorf("job file at descriptor %d (%s): %w", fd, job.EnvFD, err)
	}
	if j.Control, err = openControl(j.ControlFD); err != nil {
		return nil, fmt.Errorf("control socket at descriptor %d: %w", j.ControlFD, err)
	}
	return j, nil
}

// closed is the cause of a missing inherited descriptor, and the remedy.
const closed = "a wrapper between treerun and this program has closed it (hint: Python's subprocess takes " +
	"close_fds=False or pass_fds=(3, 4); a shell must not redirect 3 and 4)"

// readJobFile reads the job file, and then closes it. A descriptor that is not the job file remains untouched: where a
// wrapper has closed the descriptor of the job file, its number belongs to the Go runtime or to a library.
func readJobFile(fd int) (*Job, error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return nil, fmt.Errorf("%w: %s", err, closed)
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFREG || stat.Nlink != 0 {
		return nil, errors.New("it is not a memory file: " + closed)
	}
	f, err := job.ReadFile(io.NewSectionReader(borrowed(fd), 0, stat.Size))
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "job file")
	defer file.Close()
	_, _ = file.Seek(stat.Size, io.SeekStart) // the launcher sees by the offset that the rank has read it
	// Other processes that have the memory file open do not use it. It may be sealed, which does no harm.
	j := &Job{File: *f}
	if file.Truncate(0) == nil {
		j.News, j.Page, j.Record = mark(file, j.Events)
	}
	return j, nil
}

// borrowed reads a descriptor that may have another owner: it moves no offset, and closes nothing.
type borrowed int

func (fd borrowed) ReadAt(p []byte, at int64) (int, error) {
	n, err := syscall.Pread(int(fd), p, at)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return max(n, 0), err
}

func openControl(fd int) (net.Conn, error) {
	at, err := syscall.Getsockname(fd)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, closed)
	}
	if _, unix := at.(*syscall.SockaddrUnix); !unix {
		return nil, errors.New("it is another socket: " + closed)
	}
	file := os.NewFile(uintptr(fd), "control socket")
	defer file.Close()
	return net.FileConn(file) // a duplicate that does not block and is closed on exec
}
