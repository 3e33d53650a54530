package rank

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

// fromFile turns a job file into a config.
func fromFile(f *job.File, control net.Conn) *config {
	cfg := &config{
		jobID: f.JobID, epoch: f.Epoch, secret: f.Secret, rank: f.Rank, size: f.Size,
		localRank: f.LocalRank, localSize: f.LocalSize, host: f.Host, device: f.Device, hosts: f.Hosts,
		seeds: f.Seeds, control: control, settings: f.Settings,
	}
	return cfg
}

// inherit takes over the job file whose descriptor number stands in text, and
// the control socket that it names. Children of this process inherit neither.
func inherit(text string) (*job.File, net.Conn, error) {
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return nil, nil, fmt.Errorf("%s=%.40q, want the number of a descriptor", job.EnvFD, text)
	}
	f, err := readJobFile(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("job file at descriptor %d (%s): %w", fd, job.EnvFD, err)
	}
	control, err := openControl(f.ControlFD)
	if err != nil {
		return nil, nil, fmt.Errorf("control socket at descriptor %d: %w", f.ControlFD, err)
	}
	return f, control, nil
}

func readJobFile(fd int) (*job.File, error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return nil, fmt.Errorf("%w: something between the launcher and this program has closed it", err)
	}
	syscall.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "job file")
	defer file.Close()
	f, err := job.ReadFile(rewound(file))
	if err != nil {
		return nil, err
	}
	if stat.Mode&syscall.S_IFMT == syscall.S_IFREG && stat.Nlink == 0 {
		// Whoever else holds the memory file has no use for it. It may be
		// sealed, which is fine as well.
		_ = file.Truncate(0)
	}
	return f, nil
}

// rewound makes sure that a file that can be read again is read from its
// beginning. A pipe cannot.
func rewound(file *os.File) io.Reader {
	_, _ = file.Seek(0, io.SeekStart)
	return file
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
