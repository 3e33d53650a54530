//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
)

// program is the program of the ranks.
type program struct {
	Name   string // as the user gave it; the ranks' argv[0]
	Path   string // of the executable, absolute; empty until build when Folder is set
	Folder string // of Go source, absolute; empty when the user gave Path

	tempDir string    // the temporary folder that holds Path
	guard   *exec.Cmd // removes tempDir should we be killed
}

// findProgram looks up name: with a slash in it, or . or .., relative to the working
// directory, otherwise in PATH. Its errors carry an exit code.
func findProgram(name string) (*program, error) {
	path := name
	if !strings.Contains(name, "/") && name != "." && name != ".." {
		found, err := exec.LookPath(name)
		if err != nil {
			return nil, notInPath(name)
		}
		path = found
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cmdline.Errorf(cmdline.ExitNotFound, "%s: not found: %w", name, cmdline.Cause(err))
	case err != nil:
		return nil, cmdline.Errorf(cmdline.ExitNotExecutable, "%s: cannot be run: %w", name, cmdline.Cause(err))
	case info.IsDir():
		return &program{Name: name, Folder: path}, nil
	case !info.Mode().IsRegular():
		return nil, cmdline.Errorf(cmdline.ExitNotExecutable, "%s: cannot be run: not a regular file", name)
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		hint := "chmod +x makes a program executable"
		if strings.HasSuffix(name, ".go") {
			hint = fmt.Sprintf("give the folder of a Go program: %s", "./"+filepath.Dir(name))
		}
		return nil, cmdline.Errorf(cmdline.ExitNotExecutable, "%s: not executable: %w (%s)", name, err, hint)
	}
	return &program{Name: name, Path: path}, nil
}

// notInPath returns a more detailed error than exec.LookPath for a name that it did not find.
func notInPath(name string) error {
	if _, err := os.Stat(name); err == nil {
		return cmdline.Errorf(cmdline.ExitNotFound, "%s: not found in PATH (write ./%s for the one in this folder)", name,
			name)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return cmdline.Errorf(cmdline.ExitNotExecutable, "%s: found as %s, which is not executable", name, path)
		}
	}
	hint := ""
	if near := cmdline.Nearest(name, append(listedCommands(), "help")); near != "" {
		hint = commandHint(name)
	}
	return cmdline.Errorf(cmdline.ExitNotFound, "%s: not found in PATH%s", name, hint)
}

// remove deletes the files that build has made. Processes that run the program already continue. It
// may be called at any time and any number of times.
func (p *program) remove() error {
	if p.tempDir == "" {
		return nil
	}
	err := os.RemoveAll(p.tempDir)
	p.tempDir = ""
	if p.guard != nil {
		_ = p.guard.Process.Kill() // fails only where it has ended
		_ = p.guard.Wait()         // its state does not matter
	}
	if err != nil {
		return fmt.Errorf("remove the built program: %w", err)
	}
	return nil
}

// interruptGrace is the time that the go command may take to stop after SIGINT.
const interruptGrace = 2 * time.Second

// build compiles p.Folder with the go command and sets p.Path; for a program
// that is built it does nothing. The output of the go command goes to screen, our stderr,
// unchanged, with a notice if the build takes long. A signal of stop ends the go command and all
// its children. The caller calls remove in every case, and holds its operating system thread (see
// runtime.LockOSThread): the go command dies with that thread. Where ranks run in a debugger, the compiler does not
// optimize.
func (p *program) build(stop <-chan os.Signal, screen *output.Sink, debug bool) error {
	if p.Folder == "" || p.Path != "" {
		return nil
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("%s is a folder, and building it needs the go command: %w", p.Name, err)
	}
	if p.tempDir, err = os.MkdirTemp("", "treerun-build-"); err != nil {
		return fmt.Errorf("build %s: %w", p.Name, err)
	}
	if err := p.startGuard(); err != nil {
		return fmt.Errorf("build %s: %w", p.Name, err)
	}
	path := filepath.Join(p.tempDir, filepath.Base(p.Folder))
	// The go command's own temporary files go into our folder as well, so that
	// they cannot outlive it: GOTMPDIR is for the command itself, TMPDIR for the
	// linker and the C compiler. Version control is not queried: it is slow, and
	// fails in a container where the folder belongs to another user.
	ctx, interrupt := context.WithCancelCause(context.Background())
	defer interrupt(nil)
	args := []string{"build", "-buildvcs=false", "-o", path, "."}
	if debug {
		args = slices.Insert(args, 1, "-gcflags=all=-N -l")
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Dir = p.Folder
	cmd.Env = append(os.Environ(), "PWD="+p.Folder, "GOTMPDIR="+p.tempDir, "TMPDIR="+p.tempDir)
	cmd.Stdout, cmd.Stderr = screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptGrace
	end := onStop(stop, func(sig syscall.Signal) {
		interrupt(cmdline.Errorf(cmdline.SignalCode(sig), "interrupted by %s", unix.SignalName(sig)))
	}, func(seconds int) {
		text := fmt.Sprintf("treerun: building %.50s ... %d s", p.Name, seconds)
		if !screen.Status(text) && seconds == buildNote {
			screen.Printf("%s so far", text)
		}
	})
	err = cmd.Run()
	end()
	screen.Status("")
	if ctx.Err() != nil {
		if cmd.Process != nil { // the rest of the group
			_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		}
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

// buildNote is the number of seconds of building after which a line reports it where no line can be updated.
const buildNote = 5

// onStop calls do with every signal that stops a job, and each with every second that has
// passed, until end is called.
func onStop(signals <-chan os.Signal, onSignal func(syscall.Signal), onSecond func(seconds int)) (end func()) {
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for n := 1; ; {
			select {
			case s := <-signals:
				switch s {
				case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
					onSignal(s.(syscall.Signal))
				}
			case <-tick.C:
				onSecond(n)
				n++
			case <-ended:
				return
			}
		}
	})
	return func() { close(ended); wg.Wait() }
}

// guardScript removes a folder when this process dies without having done so, as by
// SIGKILL. It tries for some seconds: children of the go command may still write
// into the folder.
const guardScript = `read -r _; i=0; until rm -rf "$0" || [ $((i += 1)) -gt 50 ]; do sleep 0.1; done`

// startGuard guards p.tempDir.
func (p *program) startGuard() error {
	guard := exec.Command("sh", "-c", guardScript, p.tempDir)
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it gets no signals of our terminal
	_, err := guard.StdinPipe()                            // Wait closes it
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		return fmt.Errorf("guard %s: %w", p.tempDir, err)
	}
	p.guard = guard
	return nil
}
