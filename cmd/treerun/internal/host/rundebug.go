//go:build linux

package host

import (
	"bytes"
	"errors"
	"fmt"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/internal/job"
)

// InDebugger stands between the rank and the address in the line of RunDebug.
const InDebugger = " is in the debugger: dlv connect "

// RunDebug runs the program of a rank under Delve, with the arguments that DebugCommand names, in the process of the
// rank. It prints the command that connects to Delve, and returns the exit code of the program. Delve runs code for its
// clients, so it listens on this host alone, where it accepts connections of this user only.
func RunDebug(args []string) (int, error) {
	if len(args) < 4 {
		return 0, errors.New("a rank in the debugger is started by treerun, not by users")
	}
	host, delve, path := args[0], args[1], args[2]
	rank := os.Getenv(job.EnvRank)
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGINT, syscall.SIGTERM) // Delve gets them, and ends the program
	runtime.LockOSThread()                                  // Delve dies with it
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	found := make(chan string, 1)
	cmd := exec.Command(delve, slices.Concat([]string{"exec", "--headless", "--api-version=2", "--accept-multiclient",
		"--listen=127.0.0.1:0", path, "--"}, args[4:])...)
	line := &listenLine{found: found}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, line, os.Stderr
	if sameFile(os.Stdout, os.Stderr) {
		cmd.Stderr = line // one pipe for both keeps their order
	}
	// The program has these files, too. Without the variable Delve starts a process that has them, in another session.
	cmd.ExtraFiles = []*os.File{jobFD - 3: os.NewFile(jobFD, "job file"), controlFD - 3: os.NewFile(controlFD, "control")}
	cmd.Env = append(os.Environ(), "GO_TELEMETRY_CHILD=2")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = LeftoverGrace // a process that the program has left may have its output
	if err := cmd.Start(); err != nil {
		return 0, cmdline.Errorf(cmdline.ExitNotExecutable, "rank %s: run Delve: %w", rank, err)
	}
	ended, p := make(chan error, 1), delveState{}
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
		_, _ = os.Stdout.Write(line.before)
	case address := <-found:
		text := "treerun: rank " + rank + InDebugger + address
		if host != "" {
			text += fmt.Sprintf(" on host %s (elsewhere after: ssh -NL %s:%[2]s %[1]s)", host, address)
		}
		p.watch(address, func() { fmt.Fprintln(os.Stderr, text) })
		<-ended
	}
	endOrphans()
	switch {
	case p.Exited && p.ExitStatus < 0:
		return cmdline.SignalCode(syscall.Signal(-p.ExitStatus)), nil
	case p.Exited:
		return p.ExitStatus, nil
	case len(stopped) > 0:
		return cmdline.SignalCode(syscall.SIGTERM), nil
	case p.Pid == 0 && cmd.ProcessState.ExitCode() < 0: // a signal
		return 0, cmdline.Errorf(cmdline.ExitNotExecutable, "rank %s: Delve cannot run %s: %v (hint: Delve needs hundreds "+
			"of MiB of memory)", rank, path, cmd.ProcessState)
	case p.Pid == 0:
		return 0, cmdline.Errorf(cmdline.ExitNotExecutable, "rank %s: Delve cannot run %s: %v (hint: Delve's own lines "+
			"are above)", rank, path, cmd.ProcessState)
	case cmd.ProcessState.Success():
		return 0, cmdline.Errorf(1, "rank %s: a client of the debugger has ended the program", rank)
	}
	return 0, cmdline.Errorf(1, "rank %s: Delve has ended before the program: %v", rank, cmd.ProcessState)
}

// delveState is a part of Delve's state of a program. A Pid of 0 means that Delve has not started it.
type delveState struct {
	Pid        int
	Exited     bool
	ExitStatus int // minus the signal that killed it
}

// debugPoll is the time between two looks at a program that is stopped in a debugger.
const debugPoll = 100 * time.Millisecond

// watch returns once the program has ended, and then ends Delve; or earlier where Delve ends. It calls started once
// clients can connect.
func (p *delveState) watch(address string, started func()) {
	client, err := jsonrpc.Dial("tcp", address)
	if err != nil {
		return
	}
	defer client.Close()
	for ; ; time.Sleep(debugPoll) {
		var now struct{ State delveState }
		if err := client.Call("RPCServer.State", struct{}{}, &now); err != nil { // it waits while the program runs
			n, _ := fmt.Sscanf(err.Error(), "Process %d has exited with status %d", &now.State.Pid, &now.State.ExitStatus)
			if now.State.Exited = n == 2; n < 2 {
				p.Exited = p.Exited && p.ExitStatus != 0 // 0 is also that of a program that a client had Delve kill
				return
			}
		}
		if p.Pid == 0 {
			started()
		}
		again := p.Exited
		if *p = now.State; again {
			_ = client.Call("RPCServer.Detach", map[string]bool{"Kill": true}, new(struct{})) // it ends in any case
			return
		}
	}
}

// listenLine is the stdout of Delve and its program. It takes out the line with the address of Delve.
type listenLine struct {
	found  chan<- string // nil once it was found
	before []byte
}

// Write passes on text.
func (l *listenLine) Write(text []byte) (int, error) {
	if l.found == nil {
		return os.Stdout.Write(text)
	}
	l.before = append(l.before, text...)
	before, rest, ok := bytes.Cut(l.before, []byte("API server listening at: "))
	address, rest, end := bytes.Cut(rest, []byte("\n"))
	if !ok || !end {
		return len(text), nil
	}
	l.found <- string(address)
	l.found, l.before = nil, nil
	_, err := os.Stdout.Write(slices.Concat(before, rest))
	return len(text), err
}

// sameFile reports whether two files are the same one.
func sameFile(a, b *os.File) bool {
	first, err := a.Stat()
	second, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(first, second)
}

// endOrphans kills the process groups of orphans that are children of this process, their subreaper: the program where
// Delve did not end it, and processes that it has left.
func endOrphans() {
	for _, pid := range mainThreadChildren() {
		if group, err := unix.Getpgid(pid); err == nil && group != unix.Getpgrp() {
			_ = unix.Kill(-group, unix.SIGKILL)
		}
	}
}
