package agent

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// program is what the ranks run: a file of this host, or one that is pushed into
// memory without a name.
type program struct {
	path   string
	memory *os.File
}

// readProgram takes a program that is pushed.
func readProgram(r io.Reader, sum []byte) (*program, error) {
	memory, err := newMemory()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(h, memory), r); err != nil {
		return nil, fmt.Errorf("keep the program in memory: %w", cmdline.Cause(err))
	}
	if got := h.Sum(nil); !bytes.Equal(got, sum) {
		return nil, fmt.Errorf("the program did not arrive as it was sent: its checksum is %x, want %x", got[:8], sum[:8])
	}
	p := &program{memory: memory}
	return p, p.seal()
}

// newMemory makes a memory file that can be executed.
func newMemory() (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("treerun-program", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3: it can be
		fd, err = unix.MemfdCreate("treerun-program", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("keep the program in memory: %w", os.NewSyscallError("memfd_create", err))
	}
	return os.NewFile(uintptr(fd), "program"), nil
}

// seal makes the program unchangeable, and such that nobody has it open for
// writing: else it could not be executed.
func (p *program) seal() error {
	_ = p.memory.Chmod(0o700)
	fd := int(p.memory.Fd())
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS,
		unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return fmt.Errorf("seal the program: %w", os.NewSyscallError("fcntl", err))
	}
	read, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return fmt.Errorf("keep the program in memory: %w", err)
	}
	_ = p.memory.Close()
	p.memory = read
	// By our number, and not as "self": an interpreter opens the file as well.
	p.path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), read.Fd())
	return nil
}

// find makes sure that the program is there. One that was given without a folder
// may be somewhere else in PATH than where the launcher found it.
func (p *program) find(name string) error {
	err := executable(p.path)
	if err == nil {
		return nil
	}
	if !strings.Contains(name, "/") {
		if path, lookErr := exec.LookPath(name); lookErr == nil {
			p.path = path
			return nil
		}
	}
	code := cmdline.ExitNotExecutable
	if errors.Is(err, os.ErrNotExist) {
		code = cmdline.ExitNotFound
	}
	return cmdline.Errorf(code, "%s: %w (hint: --push sends the program there)", p.path, cmdline.Cause(err))
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	}
	return unix.Access(path, unix.X_OK)
}
