package program

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
)

// interruptGrace is how long the go command may take to stop when told to.
const interruptGrace = 2 * time.Second

// Interrupted is the error of Build when a signal asked to stop.
type Interrupted struct{ Signal syscall.Signal }

// Error names the signal.
func (e *Interrupted) Error() string {
	return fmt.Sprintf("interrupted by %s", unix.SignalName(e.Signal))
}

// Build compiles p.Folder with the go command and sets p.Path; for a program
// that is built it does nothing. What the go command prints goes to our stderr
// as it is. A signal of stop ends it and all it has started. The caller calls
// Remove in every case, and holds its operating system thread (see
// runtime.LockOSThread): the go command dies with that thread.
func (p *Program) Build(stop <-chan os.Signal) error {
	if p.Folder == "" || p.Path != "" {
		return nil
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		return exitcode.Errorf(exitcode.Internal, "%s is a folder, and to build it the go command is needed: %w", p.Name, err)
	}
	if p.private, err = os.MkdirTemp("", "treerun-build-"); err != nil {
		return exitcode.Errorf(exitcode.Internal, "build %s: %w", p.Name, err)
	}
	if p.guard, err = newGuard(p.private); err != nil {
		return exitcode.Errorf(exitcode.Internal, "build %s: %w", p.Name, err)
	}
	path := filepath.Join(p.private, filepath.Base(p.Folder))
	// The go command's own temporary files go into our folder as well, so that
	// they cannot outlive it: GOTMPDIR is for the command itself, TMPDIR for the
	// linker and the C compiler. Version control is not asked: it is slow, and
	// fails in a container that belongs to somebody else.
	cmd := exec.Command(tool, "build", "-buildvcs=false", "-o", path, ".")
	cmd.Dir = p.Folder
	cmd.Env = append(os.Environ(), "PWD="+p.Folder, "GOTMPDIR="+p.private, "TMPDIR="+p.private)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err = runInterruptibly(cmd, stop)
	if e := new(Interrupted); errors.As(err, &e) {
		return &exitcode.Error{Code: exitcode.Signal(e.Signal), Err: fmt.Errorf("build %s: %w", p.Name, err)}
	}
	if err != nil {
		return exitcode.Errorf(exitcode.Internal, "%s does not build: go build: %w", p.Name, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&0o111 == 0 { // go build writes an archive for other packages
		return exitcode.Errorf(exitcode.Internal, "%s is not a program: the Go package in that folder is not package main",
			p.Name)
	}
	p.Path = path
	return nil
}

// runInterruptibly runs cmd, which has a process group of its own, until it
// ends or a signal comes. The group is signalled only while the process has not
// been waited for, so that its number cannot be somebody else's.
func runInterruptibly(cmd *exec.Cmd, stop <-chan os.Signal) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
	}()
	var why *Interrupted
	var late <-chan time.Time
	for {
		select {
		case s := <-stop:
			switch s {
			case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
				if why == nil {
					why = &Interrupted{s.(syscall.Signal)}
					late = time.After(interruptGrace)
				}
				_ = unix.Kill(-pid, unix.SIGINT)
			}
			continue
		case <-late:
			_ = unix.Kill(-pid, unix.SIGKILL)
			continue
		case <-ended:
		}
		if why != nil {
			_ = unix.Kill(-pid, unix.SIGKILL) // what it has left running
		}
		if err := cmd.Wait(); why == nil {
			return err
		}
		return why
	}
}
