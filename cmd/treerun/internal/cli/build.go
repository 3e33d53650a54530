package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// interruptGrace is how long the go command may take to stop when told to.
const interruptGrace = 2 * time.Second

// build compiles p.Folder with the go command and sets p.Path; for a program
// that is built it does nothing. What the go command prints goes to our stderr
// as it is. A signal of stop ends it and all it has started. The caller calls
// remove in every case, and holds its operating system thread (see
// runtime.LockOSThread): the go command dies with that thread.
func (p *program) build(stop <-chan os.Signal) error {
	if p.Folder == "" || p.Path != "" {
		return nil
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("%s is a folder, and to build it the go command is needed: %w", p.Name, err)
	}
	if p.private, err = os.MkdirTemp("", "treerun-build-"); err != nil {
		return fmt.Errorf("build %s: %w", p.Name, err)
	}
	if err := p.startGuard(); err != nil {
		return fmt.Errorf("build %s: %w", p.Name, err)
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
	if e := new(cmdline.Error); errors.As(err, &e) {
		return cmdline.Errorf(e.Code, "build %s: %w", p.Name, err)
	}
	if err != nil {
		return fmt.Errorf("%s does not build: go build: %w", p.Name, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&0o111 == 0 { // go build writes an archive for other packages
		return fmt.Errorf("%s is not a program: the Go package in that folder is not package main",
			p.Name)
	}
	p.Path = path
	return nil
}

// runInterruptibly runs cmd, which has a process group of its own, until it
// ends or a signal comes. The group is signalled only while the process has not
// been waited for, so that its number cannot be somebody else's. A signal is an error
// with its exit code.
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
	var why error
	var late <-chan time.Time
	for {
		select {
		case s := <-stop:
			switch s {
			case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
				if why == nil {
					sig := s.(syscall.Signal)
					why = cmdline.Errorf(cmdline.SignalCode(sig), "interrupted by %s", unix.SignalName(sig))
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

// guardScript removes a folder when this process dies without having done so, as by
// SIGKILL. It tries for some seconds: what the go command has started may still write
// into the folder.
const guardScript = `read -r _; i=0; until rm -rf "$0" || [ $((i += 1)) -gt 50 ]; do sleep 0.1; done`

// startGuard guards p.private.
func (p *program) startGuard() error {
	guard := exec.Command("sh", "-c", guardScript, p.private)
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals of our terminal are not for it
	_, err := guard.StdinPipe()                            // Wait closes it
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		return fmt.Errorf("guard %s: %w", p.private, err)
	}
	p.guard = guard
	return nil
}
