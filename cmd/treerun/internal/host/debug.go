//go:build linux

package host

import (
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"os/exec"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
)

// DebugCommand is the first argument of treerun with which it runs the program of a rank under Delve. It is followed by
// the name of the host, "" where the job has only one, the path of Delve, that of the program, and the arguments from
// argv[0] on. Users do not call it.
const DebugCommand = "debug:rank"

// debugger returns the command that runs a program under the debugger.
func (sp *spawner) debugger(path string, args []string) (string, []string, error) {
	dlv, err := FindDelve(path)
	if err != nil {
		return "", nil, err
	}
	name := ""
	if slices.Max(sp.host.job.File.Hosts) > 0 {
		name = sp.host.cfg.Name
	}
	return "/proc/self/exe", append([]string{"treerun", DebugCommand, name, dlv, path}, args...), nil
}

// FindDelve returns the path of Delve, and an error where it cannot debug a program; "" is one that treerun builds.
func FindDelve(program string) (string, error) {
	dlv, err := exec.LookPath("dlv")
	if err != nil {
		return "", cmdline.Errorf(cmdline.ExitNotFound, "--debug needs Delve on the host of the rank: %w (hint: go "+
			"install github.com/go-delve/delve/cmd/dlv@latest, and put $(go env GOPATH)/bin into PATH)", err)
	}
	if program == "" {
		return dlv, nil
	}
	if err := checkSymbols(program); err != nil {
		return "", cmdline.Errorf(cmdline.ExitNotExecutable, "--debug: Delve cannot debug %s: %w", program, err)
	}
	return dlv, nil
}

// checkSymbols returns an error where a file is no program that Delve can debug: Delve runs some of them to their end
// before it reports that.
func checkSymbols(path string) error {
	if _, err := buildinfo.ReadFile(path); err != nil {
		return errors.New("it is no program in Go that treerun can read (hint: name the program itself, not a script)")
	}
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Section(".debug_info") == nil && f.Section(".zdebug_info") == nil {
		return errors.New("it has no symbols (hint: build it without -ldflags=-s, -w or strip)")
	}
	return nil
}

// signalProgram sends sig to the program of a rank that runs under a debugger, in a process group of its own, and
// reports whether the rank's group needs no signal: it has the debugger, which ends the program on SIGTERM.
func (c *child) signalProgram(sig syscall.Signal) (done bool) {
	if !c.debugged || c.ended {
		return false
	}
	if pid := inspect.Tracee(c.pid); pid > 0 && sig != unix.SIGTERM {
		_ = unix.Kill(-pid, sig)
	}
	return sig != unix.SIGTERM && sig != unix.SIGKILL
}
