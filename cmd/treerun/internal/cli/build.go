package cli

import (
	"context"
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
	ctx, interrupt := context.WithCancelCause(context.Background())
	defer interrupt(nil)
	cmd := exec.CommandContext(ctx, tool, "build", "-buildvcs=false", "-o", path, ".")
	cmd.Dir = p.Folder
	cmd.Env = append(os.Environ(), "PWD="+p.Folder, "GOTMPDIR="+p.private, "TMPDIR="+p.private)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptGrace
	err = runInterruptibly(cmd, stop, interrupt)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
		return cmdline.Errorf(cmdline.ExitCode(err), "build %s: %w", p.Name, err)
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

// runInterruptibly runs cmd, which has a process group of its own. A signal that stops a job
// interrupts it, with an error that has its exit code; what is then left of the group is killed.
func runInterruptibly(cmd *exec.Cmd, stop <-chan os.Signal, interrupt context.CancelCauseFunc) error {
	ended, heard := make(chan struct{}), make(chan struct{})
	interrupted := false
	go func() {
		defer close(heard)
		for {
			select {
			case s := <-stop:
				if sig := s.(syscall.Signal); stopsJob(sig) {
					interrupted = true
					interrupt(cmdline.Errorf(cmdline.SignalCode(sig), "interrupted by %s", unix.SignalName(sig)))
				}
			case <-ended:
				return
			}
		}
	}()
	err := cmd.Run()
	close(ended)
	if <-heard; interrupted && cmd.Process != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	}
	return err
}

// stopsJob tells the signals that stop a job.
func stopsJob(s os.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP
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
