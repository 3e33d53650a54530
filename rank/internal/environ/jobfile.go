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

// inherit takes over the job file whose descriptor number stands in text, and
// the control socket that it names. Children of this process inherit neither.
func inherit(text string) (*Job, error) {
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%.40q, want the number of a descriptor", job.EnvFD, text)
	}
	f, err := readJobFile(fd)
	if err != nil {
		return nil, fmt.Errorf("job file at descriptor %d (%s): %w", fd, job.EnvFD, err)
	}
	control, err := openControl(f.ControlFD)
	if err != nil {
		return nil, fmt.Errorf("control socket at descriptor %d: %w", f.ControlFD, err)
	}
	return &Job{File: *f, Control: control}, nil
}

func readJobFile(fd int) (*job.File, error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return nil, fmt.Errorf("%w: something between the launcher and this program has closed it", err)
	}
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "job file")
	defer file.Close()
	_, _ = file.Seek(0, io.SeekStart) // where it can be read again; a pipe cannot
	f, err := job.ReadFile(file)
	if err == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFREG && stat.Nlink == 0 {
		// Whoever else holds the memory file has no use for it. It may be
		// sealed, which is fine as well.
		if file.Truncate(0) == nil {
			mark(file)
		}
	}
	return f, err
}

func openControl(fd int) (net.Conn, error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return nil, errors.New("it is no socket")
	}
	file := os.NewFile(uintptr(fd), "control socket")
	defer file.Close()
	return net.FileConn(file) // a duplicate that does not block and is closed on exec
}
