//go:build linux

package agent

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// forwardOutput sends the output of a rank to the launcher, as fast as the launcher shows it.
func (a *agent) forwardOutput(b *wire.Stream, src *host.Pipe) {
	go func() {
		defer src.Close() // only read from
		s, err := a.up.Stream(&wire.Frame{Host: a.join.Index, Body: b})
		if err == nil {
			wire.Relay(s, src)
		}
	}()
}

// onStream handles a stream from the launcher.
func (a *agent) onStream(f *wire.Frame, s net.Conn) {
	push, isPush := f.Body.(*wire.Push)
	switch {
	case isPush:
		a.receive(f, push, s)
	case f.Host != a.join.Index:
		relay(a.tree.Stream, f, s)
		return
	default:
		select {
		case a.stdin <- s: // feed closes it
			return
		default:
		}
	}
	_ = s.Close()
}

// receive receives a program, and passes it on to the hosts below.
func (a *agent) receive(f *wire.Frame, push *wire.Push, s io.Reader) {
	if a.join.Path != "" {
		a.reportError(errors.New("unexpected program"))
		return
	}
	path, err := receiveProgram(s, push.Sum)
	if err != nil {
		a.reportError(err)
		return
	}
	a.tree.Push(f, path)
	a.reportReady(path)
}

// copyStdin copies the launcher's stdin to a rank. Input that the rank does not read is dropped.
func (a *agent) copyStdin(rank *os.File) {
	defer rank.Close() // the reader has everything that was written
	select {
	case s := <-a.stdin:
		defer s.Close()
		_, _ = io.Copy(rank, s)
		_ = rank.Close()
		_, _ = io.Copy(io.Discard, s)
	case <-a.done:
	}
}

// receiveProgram copies a pushed program into memory without a name, and returns a
// path by which it can be run. It stays there until this process ends.
func receiveProgram(r io.Reader, sum []byte) (string, error) {
	memory, err := newMemory()
	if err != nil {
		return "", fmt.Errorf("keep the program in memory: %w", err)
	}
	defer memory.Close()
	fd := int(memory.Fd())
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(h, memory), r); err != nil {
		return "", fmt.Errorf("keep the program in memory: %w", cmdline.Cause(err))
	}
	if got := h.Sum(nil); !bytes.Equal(got, sum) {
		return "", fmt.Errorf("the program was damaged in transit: its checksum is %x, want %x", got[:8], sum[:8])
	}
	// The file is sealed if it is a memfd, and closed for writing: otherwise it could not be executed.
	_ = memory.Chmod(0o700)
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
	read, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("keep the program in memory: %w", os.NewSyscallError("open", err))
	}
	// The path has our pid, not "self": an interpreter opens the file as well.
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), read), nil
}

// newMemory returns a memory file that can be executed, or an unlinked file of $TMPDIR where vm.memfd_noexec is 2.
func newMemory() (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("treerun-program", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3: every memfd can be executed
		fd, err = unix.MemfdCreate("treerun-program", flags)
	}
	call := "memfd_create"
	if errors.Is(err, unix.EACCES) {
		call = "open an unlinked file in " + os.TempDir()
		fd, err = unix.Open(os.TempDir(), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o700)
	}
	return os.NewFile(uintptr(fd), "program"), os.NewSyscallError(call, err)
}

// findProgram checks that the program exists, and returns its path. A program that was
// given without a folder may be in another folder of PATH than on the launcher's host.
func findProgram(path, name string) (string, error) {
	_, err := exec.LookPath(path)
	if err == nil {
		return path, nil
	}
	if !strings.Contains(name, "/") {
		if found, lookErr := exec.LookPath(name); lookErr == nil {
			return found, nil
		}
	}
	code := cmdline.ExitNotExecutable
	if errors.Is(err, os.ErrNotExist) {
		code = cmdline.ExitNotFound
	}
	return "", cmdline.Errorf(code, "%s: %w (hint: --push sends the program there)", path, cmdline.Cause(err))
}
